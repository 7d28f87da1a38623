// Checks this implementation against the golden vectors, or answers requests from standard input.
//
//   node run.js vectors.json unicode-15.1.0.json     one line per case; exit status 1 at any difference. The files of version 2 end in -v2.json
//   node run.js --stdin unicode-15.1.0.json          JSON lines {"spec", "bands", "rows", "text"} to JSON lines
//                                                    {"signature", "band_keys", "record"}; a line that cannot be
//                                                    answered becomes {"error"}, and the exit status 1

"use strict";

const { readFileSync } = require("node:fs");
const records = require("./record.js");
const sketch = require("./sketch.js");

const hex16 = (value) => value.toString(16).padStart(16, "0");
const readJson = (path) => sketch.parseJson(readFileSync(path, "utf8"));

// All that a text becomes, in the form of the golden vectors.
function describe(text, spec, bands, rows, tables) {
  const shingles = sketch.shingleHashes(text, spec, tables);
  const slots = sketch.signature(shingles, spec);
  const content = spec.version > 1 ? { content: sketch.contentHash(text, spec, tables).map(hex16) } : {};
  return {
    ...content,
    shingles: shingles.map(hex16),
    signature: Array.from(slots),
    band_keys: sketch.bandKeys(slots, bands, rows).map(hex16),
    record: records.writeRecord(slots, shingles.length, spec).toString("hex"),
  };
}

// ---- Golden vectors ---------------------------------------------------------------------------------------------------------

// One thing that is not as the vectors say.
class Difference extends Error {
  constructor(place, field, found, expected) {
    super(`${place}, field ${field}: found ${found}, expected ${expected}`);
  }
}

function compareScalar(place, field, found, expected) {
  if (found !== expected) {
    throw new Difference(place, field, found, expected);
  }
}

function compareList(place, field, found, expected) {
  expected.forEach((value, i) => compareScalar(place, `${field}[${i}]`, found[i], value));
  compareScalar(place, `${field} (length)`, found.length, expected.length);
}

function compareRecordBytes(place, found, expected) {
  for (let i = 0; i < Math.min(found.length, expected.length); i += 2) {
    compareScalar(place, `record (byte ${i / 2})`, found.slice(i, i + 2), expected.slice(i, i + 2));
  }
  compareScalar(place, "record (bytes)", found.length / 2, expected.length / 2);
}

function checkReading(place, golden, shingleCount, spec) {
  const read = records.readRecord(Buffer.from(golden.record, "hex"), spec);
  compareList(place, "signature read back", read.signature, golden.signature);
  compareScalar(place, "shingles read back", read.shingles, shingleCount);
}

// Compares one document; returns how many values there were.
function checkDocument(place, golden, text, context) {
  const { spec, bands, rows, tables } = context;
  const found = describe(text, spec, bands, rows, tables);
  if (golden.shingles !== null) {
    compareList(place, "shingles", found.shingles, golden.shingles);
  }
  if (golden.content !== undefined) {
    compareList(place, "content", found.content, golden.content);
  }
  compareList(place, "signature", found.signature, golden.signature);
  compareList(place, "band_keys", found.band_keys, golden.band_keys);
  compareRecordBytes(place, found.record, golden.record);
  checkReading(place, golden, found.shingles.length, spec);
  return { shingles: golden.shingles?.length ?? 0, slots: golden.signature.length, keys: golden.band_keys.length };
}

function changed(record, offset, value) {
  const copy = Buffer.from(record);
  copy[offset] = value;
  return copy;
}

function damagedRecords(record) {
  const last = record.length - 1;
  return [
    ["empty", Buffer.alloc(0), records.TruncatedRecordError],
    ["one byte short", record.subarray(0, last), records.TruncatedRecordError],
    ["one byte long", Buffer.concat([record, Buffer.alloc(1)]), records.TruncatedRecordError],
    ["magic", changed(record, 0, 0x58), records.BadMagicError],
    ["version", changed(record, 4, 9), records.UnknownVersionError],
    ["version of another Spec", records.seal(changed(record, 4, 3 - record[4])), records.HeaderMismatchError],
    ["checksum", changed(record, last, record[last] ^ 1), records.WrongChecksumError],
    ["fingerprint", records.seal(changed(record, 12, record[12] ^ 1)), records.ForeignFingerprintError],
    ["family", records.seal(changed(record, 5, 2)), records.HeaderMismatchError],
    ["slot bits", records.seal(changed(record, 6, 16)), records.HeaderMismatchError],
    ["k", records.seal(changed(record, 8, record[8] ^ 1)), records.HeaderMismatchError],
  ];
}

function errorClassOfReading(bytes, spec) {
  try {
    records.readRecord(bytes, spec);
  } catch (error) {
    return error.constructor.name;
  }
  return "none";
}

// Number of damaged records that were turned away, each with the error that belongs to the damage.
function checkRejections(place, golden, spec) {
  const damaged = damagedRecords(Buffer.from(golden.record, "hex"));
  for (const [damage, bytes, errorClass] of damaged) {
    compareScalar(place, `error of a record with wrong ${damage}`, errorClassOfReading(bytes, spec), errorClass.name);
  }
  return damaged.length;
}

function checkCase(label, golden, texts, tables) {
  const { spec, bands, rows, documents } = golden;
  compareScalar(label, "fingerprint", sketch.fingerprint(spec), golden.fingerprint);
  const total = { documents: 0, shingles: 0, slots: 0, keys: 0 };
  for (const document of documents) {
    const place = `${label}, text "${document.name}"`;
    const counts = checkDocument(place, document, texts[document.name], { spec, bands, rows, tables });
    total.documents += 1;
    total.shingles += counts.shingles;
    total.slots += counts.slots;
    total.keys += counts.keys;
  }
  const rejections = checkRejections(label, documents[0], spec);
  return `${total.documents} texts, ${total.shingles} shingles, ${total.slots} slots, ${total.keys} band keys, ` +
    `${total.documents} records, ${rejections} damaged records`;
}

function labelOf(golden, number) {
  const { unit, n, scheme, k, seed, hash_seed: hashSeed, normalise } = golden.spec;
  return `case ${number} (${unit}:${n} ${scheme} k=${k} seed=${seed} hash_seed=${hashSeed} [${normalise.join(" ")}])`;
}

// One line on a case: "passed", "skipped" or "failed".
function runCase(golden, number, texts, tables) {
  const label = labelOf(golden, number);
  try {
    sketch.checkSpec(golden.spec);
    console.log(`passed  ${label}: ${checkCase(label, golden, texts, tables)}`);
    return "passed";
  } catch (error) {
    if (error instanceof sketch.UnsupportedError) {
      console.log(`skipped ${label}: ${error.message}`);
      return "skipped";
    }
    console.log(`failed  ${error instanceof Difference ? error.message : `${label}: ${error.stack}`}`);
    return "failed";
  }
}

function runVectors(vectorsPath, unicodePath) {
  const tables = new sketch.UnicodeTables(readJson(unicodePath));
  const { texts, cases } = readJson(vectorsPath);
  const outcomes = cases.map((golden, i) => runCase(golden, i + 1, texts, tables));
  const count = (outcome) => outcomes.filter((each) => each === outcome).length;
  console.log(`${count("passed")} passed, ${count("skipped")} skipped, ${count("failed")} failed`);
  return count("failed") > 0 ? 1 : 0;
}

// ---- Requests from standard input -------------------------------------------------------------------------------------------

function answer(line, tables) {
  const { spec, bands, rows, text } = sketch.parseJson(line);
  sketch.checkSpec(spec);
  const found = describe(text, spec, bands, rows, tables);
  return { content: found.content, signature: found.signature, band_keys: found.band_keys, record: found.record };
}

// Writes the answer to one line; false if there is none.
function respond(line, tables) {
  try {
    process.stdout.write(`${JSON.stringify(answer(line, tables))}\n`);
    return true;
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: `${error.name}: ${error.message}` })}\n`);
    return false;
  }
}

// Lines end at the byte 0A only: other line separators may stand inside a JSON string.
async function* linesOf(stream) {
  let pieces = [];
  for await (const chunk of stream) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      pieces.push(chunk.subarray(start, end));
      yield Buffer.concat(pieces).toString("utf8");
      pieces = [];
      start = end + 1;
    }
    pieces.push(chunk.subarray(start));
  }
  yield Buffer.concat(pieces).toString("utf8");
}

async function runRequests(unicodePath) {
  const tables = new sketch.UnicodeTables(readJson(unicodePath));
  let status = 0;
  for await (const line of linesOf(process.stdin)) {
    if (line.trim() !== "" && !respond(line, tables)) {
      status = 1;
    }
  }
  return status;
}

async function main(words) {
  if (words.length !== 2) {
    console.error("usage: node run.js vectors.json unicode-15.1.0.json | node run.js --stdin unicode-15.1.0.json");
    return 2;
  }
  return words[0] === "--stdin" ? runRequests(words[1]) : runVectors(words[0], words[1]);
}

main(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
});
