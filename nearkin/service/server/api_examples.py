"""The name and the examples of each operation of the HTTP API, for its description."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearkin.service.server.shadow import ShadowStatus

SCOPE = "shop"
ID = "two"
TEXT = "the quick brown fox jumps over the lazy dog and runs away over the hills into the {}"
OUTCOME = {
    "kind": "match",
    "layer": "search",
    "id": ID,
    "cluster": "one",
    "representative": "one",
    "similarity": 0.875,
    "candidates": 1,
    "seconds": {"look_up": 0.00016, "search": 0.00128, "write": 0.00712},
    "duplicate": True,
}
TIME = "2027-01-15T08:00:00.250000Z"
SHADOW: "ShadowStatus" = {
    "live": "primary",
    "filled": True,
    "switching": False,
    "failed": 0,
    "behind": 0,
    "agreement": 1.0,
    "both_duplicates": 1,
    "only_live_duplicates": 0,
    "only_shadow_duplicates": 0,
    "banding": {
        "live": {"bands": 13, "rows": 7, "probes": 0},
        "shadow": {"bands": 32, "rows": 4, "probes": 0},
    },
    "sides": {
        side: {
            "documents": 3,
            "duplicates": 1,
            "candidates_per_document": 0.33,
            "seconds_per_document": 0.005,
            "golden_recall": None,
        }
        for side in ("live", "shadow")
    },
}


@dataclass(frozen=True)
class OperationExample:
    """The name of an operation, and an example of its use.

    Attributes:
        operation_id: Name of the operation, which generated clients use for a method.
        response: Body of the response, or None if there is none.
        request: JSON body of the request, or None if there is none.
    """

    operation_id: str
    response: Any = None
    request: Any = None


SCOPE_STATUS = {
    "settings": {"threshold": 0.9, "max_documents": 1000},
    "used_documents": 4,
    "used_bytes": 2048,
}
EXAMPLES: dict[str, OperationExample] = {
    "POST /v1/scopes/{scope}/documents": OperationExample(
        "upsertDocument", OUTCOME, {"id": ID, "text": TEXT.format("valley")}
    ),
    "POST /v1/scopes/{scope}/query": OperationExample(
        "queryDocuments",
        {
            "matches": [
                {
                    "id": "one",
                    "cluster": "one",
                    "similarity": 0.875,
                    "shared_bands": 4,
                    "representative": "one",
                }
            ]
        },
        {"text": TEXT.format("town"), "top": 5, "members": False},
    ),
    "POST /v1/scopes/{scope}/near-misses": OperationExample(
        "findNearMisses",
        {
            "near_misses": [
                {
                    "id": "three",
                    "cluster": "three",
                    "similarity": 0.75,
                    "shared_bands": 1,
                    "representative": "three",
                }
            ]
        },
        {"text": TEXT.format("town"), "top": 5},
    ),
    "POST /v1/scopes/{scope}/passages": OperationExample(
        "findPassages",
        {
            "documents": [
                {
                    "id": "one",
                    "cluster": "one",
                    "tokens": 12,
                    "passages": [
                        {
                            "start": 0,
                            "end": 61,
                            "stored_start": 0,
                            "stored_end": 61,
                            "tokens": 12,
                        }
                    ],
                    "found": 1,
                }
            ],
            "candidates": 1,
            "compared": 1,
            "complete": True,
        },
        {"text": TEXT.format("town"), "top": 5},
    ),
    "GET /v1/scopes/{scope}/documents/{id}": OperationExample(
        "getDocument",
        {
            "id": ID,
            "cluster": "one",
            "representative": "one",
            "similarity": 0.875,
            "shingles": 15,
            "created": TIME,
            "seen": TIME,
            "text": TEXT.format("valley"),
            "signature": None,
        },
    ),
    "DELETE /v1/scopes/{scope}/documents/{id}": OperationExample("deleteDocument"),
    "POST /v1/scopes/{scope}/removals": OperationExample(
        "deleteDocuments", {"removed": 1}, {"ids": ["three", "four"]}
    ),
    "GET /v1/scopes/{scope}": OperationExample("getScope", SCOPE_STATUS),
    "PUT /v1/scopes/{scope}": OperationExample(
        "configureScope", SCOPE_STATUS, {"threshold": 0.9, "max_documents": 1000}
    ),
    "DELETE /v1/scopes/{scope}": OperationExample("deleteScope", {"removed": 4, "complete": True}),
    "PATCH /v1/scopes/{scope}/documents/{id}": OperationExample(
        "addDocumentPart",
        {"id": ID, "shingles": 4},
        {"text": "the first chapter, of many words"},
    ),
    "POST /v1/scopes/{scope}/documents/{id}:close": OperationExample("finishDocument", OUTCOME),
    "GET /v1/scopes/{scope}/clusters/{id}": OperationExample(
        "getCluster",
        {
            "id": "one",
            "representative": "one",
            "size": 2,
            "members": [{"id": "one", "similarity": 1.0}, {"id": ID, "similarity": 0.875}],
            "next": None,
        },
    ),
    "GET /v1/scopes/{scope}/clusters": OperationExample(
        "listClusters",
        {
            "clusters": [{"id": "one", "representative": "one", "size": 2, "created": TIME}],
            "next": None,
            "as_of": TIME,
        },
    ),
    "POST /v1/scopes/{scope}/decisions": OperationExample(
        "storeDecisions",
        {"stored": 1},
        {"decisions": [{"id_a": "one", "id_b": ID, "decision": "different", "by": "ada"}]},
    ),
    "GET /v1/scopes/{scope}/decisions": OperationExample(
        "listDecisions",
        {
            "decisions": [
                {
                    "id_a": "one",
                    "id_b": ID,
                    "decision": "different",
                    "by": "ada via reviews",
                    "at": TIME,
                }
            ],
            "next": None,
        },
    ),
    "GET /v1/scopes": OperationExample(
        "listScopes",
        {
            "scopes": [{"name": SCOPE, "documents": 2, "clusters": 1, "as_of": TIME}],
            "next": None,
            "complete": True,
        },
    ),
    "POST /v1/query": OperationExample(
        "queryScopes",
        {
            "matches": [
                {
                    "id": "one",
                    "cluster": "one",
                    "similarity": 0.875,
                    "representative": "one",
                    "scope": SCOPE,
                    "shared_bands": 4,
                }
            ]
        },
        {"scopes": [SCOPE, "other"], "text": TEXT.format("valley")},
    ),
    "GET /v1/changes": OperationExample(
        "listChanges",
        {
            "changes": [
                {
                    "kind": "resolved",
                    "scope": SCOPE,
                    "id": ID,
                    "into": "one",
                    "cluster": "one",
                    "at": TIME,
                    "actor": "token shop",
                    "cursor": "h5RkXoZsRcy7sW3c1VtWQ0fYqk2h8n0s",
                }
            ],
            "next": "h5RkXoZsRcy7sW3c1VtWQ0fYqk2h8n0s",
            "has_more": False,
        },
    ),
    "POST /v1/explain": OperationExample(
        "explainPair",
        {
            "names": ["one", ID],
            "texts": [TEXT.format("woods"), TEXT.format("valley")],
            "measure": "jaccard",
            "threshold": 0.8,
            "similarity": 0.875,
            "estimate": 0.8828,
            "agreeing": 113,
            "slots": 128,
            "margin": 90,
            "shared_bands": 5,
            "bands": 13,
            "rows": 7,
            "probability": 0.9995,
            "shingles": {
                "sizes": [15, 15],
                "shared": 14,
                "examples": [["the quick brown"], ["into the woods"], ["into the valley"]],
                "jaccard": 0.875,
                "containment": [0.9333, 0.9333],
            },
            "verdict": "match",
            "why": "the exact similarity 0.8750 reaches the threshold 0.8",
            "run": None,
            "vectors": None,
            "condition": None,
        },
        {"scope": SCOPE, "a": "one", "b": ID},
    ),
    "POST /v1/tune": OperationExample(
        "findOperatingPoints",
        {
            "short_texts": False,
            "measure": "jaccard",
            "k": 128,
            "threshold": 0.8,
            "recall": 0.95,
            "documents": 1_000_000,
            "distribution": "unrelated texts, jaccard words:3",
            "points": [
                {
                    "bands": 13,
                    "rows": 7,
                    "tables": 1,
                    "probes": 0,
                    "recall": 0.9531,
                    "similarities": {"0.001": 0.2584, "0.5": 0.6554, "0.99": 0.8413},
                    "classic_threshold": 0.6932,
                    "steepest": 0.6792,
                    "slope": 3.9031,
                    "candidates": 0.1298,
                    "keys": 13,
                }
            ],
        },
        {"threshold": 0.8, "recall": 0.95, "points": 1},
    ),
    "GET /v1/spec": OperationExample(
        "getSpec",
        {
            "spec": {
                "base_hash": "siphash",
                "hash_seed": 0,
                "k": 128,
                "key_id": "036322cb535ebb8c",
                "measure": "jaccard",
                "n": 3,
                "normalise": ["nfkc", "lower"],
                "scheme": "binned",
                "seed": 1,
                "slot_bits": 32,
                "unicode": "15.1.0",
                "unit": "words",
                "version": 1,
            },
            "fingerprint": "a92475c45afefe0f",
            "threshold": 0.8,
            "recall": 0.95,
            "bands": 13,
            "rows": 7,
            "probes": 0,
            "postings": "leaders",
            "passages": 4,
            "version": "0.1.0",
        },
    ),
    "GET /v1/stats": OperationExample(
        "getStats",
        {
            "records": 2,
            "leaders": 1,
            "postings": 13,
            "evicted": 0,
            "bytes": 61_440,
            "cached": 2,
            "cached_bytes": 454,
            "threshold": 0.8,
            "passages": 4,
            "bands": 13,
            "rows": 7,
            "spec_fingerprint": "a92475c45afefe0f",
            "retention": "documents are kept until somebody deletes them",
            "url": "sqlite:///nearkin.db",
            "bucket_bytes": 75_776,
        },
    ),
    "GET /v1/shadow": OperationExample("compareShadow", SHADOW),
    "POST /v1/shadow": OperationExample("switchShadow", SHADOW, {"live": "primary"}),
    "GET /healthz": OperationExample("checkHealth", {"status": "ok", "version": "0.1.0"}),
    "GET /readyz": OperationExample("checkReadiness", {"status": "ready"}),
    "GET /metrics": OperationExample(
        "getMetrics",
        "# HELP nearkin_records Number of documents in the index.\n"
        "# TYPE nearkin_records gauge\n"
        "nearkin_records 2.0\n",
    ),
}
"""The examples by method and path."""
