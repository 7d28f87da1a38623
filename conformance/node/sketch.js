// From a text to its signature and band keys: normalisation, tokens, shingle hashes, MinHash slots, and the identity of a Spec.
//
// Follows docs/reference/wire-format.md, versions 1 and 2, for unit words and chars, schemes binned and classic, and normalise steps nfkc, lower and
// symbols. The tables of code points must be those of the version.
// Anything else that a Spec may ask for raises UnsupportedError. 64-bit numbers are BigInt, slots are Numbers below 2^32.

"use strict";

const { createHash, randomUUID } = require("node:crypto");
const { xxh3 } = require("./xxh3.js");

const EMPTY_SLOT = 0xFFFFFFFF;
const NULL_BLOCK_SALT = 0x6E756C6Cn;
const CODE_POINTS = 0x110000;

const ROLLING_MULTIPLIER = 0xC2B2AE3D27D4EB4Fn;
const BAND_MULTIPLIER = 0xD6E8FEB86659FD93n;
const SPLITMIX_INCREMENT = 0x9E3779B97F4A7C15n;
const SPLITMIX_MULTIPLIER_1 = 0xBF58476D1CE4E5B9n;
const SPLITMIX_MULTIPLIER_2 = 0x94D049BB133111EBn;

const BINNED_ROUNDS = 4;
const ROUND_UNIT = 2 ** 29; // a slot is round << 29 | 29 bits of the hash
const CLASSIC_MAXIMUM = 0xFFFFFFFEn;

const HYPHEN = 0x2D;
const SPACE = 0x20;
const TATWEEL = 0x640;

const SUPPORTED_STEPS = ["nfkc", "lower", "symbols"];
const CHOICES = {
  base_hash: ["xxh3"],
  measure: ["jaccard"],
  scheme: ["binned", "classic"],
  slot_bits: [32],
  unicode: ["15.1.0"],
  unit: ["words", "chars"],
  version: [1, 2],
};
const NUMBER_FIELDS = ["hash_seed", "k", "n", "seed"];
const KNOWN_FIELDS = new Set([...Object.keys(CHOICES), ...NUMBER_FIELDS, "normalise"]);

// The Spec asks for something that this implementation does not have.
class UnsupportedError extends Error {
  constructor(message) {
    super(message);
    this.name = "UnsupportedError";
  }
}

const u64 = (value) => BigInt.asUintN(64, value);

// ---- JSON -------------------------------------------------------------------------------------------------------------------

// JSON.parse, except that integers of 16 digits or more become BigInt instead of losing their last digits.
function parseJson(text) {
  if (!/\d{16}/.test(text)) {
    return JSON.parse(text);
  }
  const tag = `integer ${randomUUID()}`;
  const atom = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  const tagged = text.replace(atom, (found) => (/^-?\d{16,}$/.test(found) ? `{"${tag}":"${found}"}` : found));
  const untag = (_key, value) => (value !== null && typeof value === "object" && tag in value ? BigInt(value[tag]) : value);
  return JSON.parse(tagged, untag);
}

// JSON with sorted keys and no spaces; fields that are null are left out.
function canonicalJson(value) {
  if (Array.isArray(value)) {
    return `[${value.map(canonicalJson).join(",")}]`;
  }
  if (value !== null && typeof value === "object") {
    const present = Object.keys(value).filter((key) => value[key] !== null && value[key] !== undefined).sort();
    return `{${present.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`).join(",")}}`;
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new UnsupportedError(`the number ${value} has no exact canonical form here`);
  }
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

// The first 16 hex digits of the SHA-256 of the canonical JSON.
function fingerprint(spec) {
  return createHash("sha256").update(canonicalJson(spec), "utf8").digest("hex").slice(0, 16);
}

// ---- Spec -------------------------------------------------------------------------------------------------------------------

function checkChoices(spec) {
  for (const [field, values] of Object.entries(CHOICES)) {
    if (!values.includes(spec[field])) {
      throw new UnsupportedError(`${field} is ${spec[field]}, only ${values.join(" or ")} is supported`);
    }
  }
}

function checkNumbers(spec) {
  for (const field of NUMBER_FIELDS) {
    const value = spec[field];
    if (typeof value !== "bigint" && !Number.isSafeInteger(value)) {
      throw new UnsupportedError(`${field} is ${value}, not an exact integer`);
    }
  }
  for (const field of ["k", "n"]) {
    if (!(spec[field] >= 1 && spec[field] <= 0xFFFFFFFF)) {
      throw new UnsupportedError(`${field} is ${spec[field]}, out of range`);
    }
  }
}

function checkSteps(spec) {
  if (!Array.isArray(spec.normalise)) {
    throw new UnsupportedError("normalise is not a list");
  }
  const foreign = spec.normalise.filter((step) => !SUPPORTED_STEPS.includes(step));
  if (foreign.length > 0) {
    throw new UnsupportedError(`normalise steps not supported: ${foreign.join(", ")}`);
  }
}

// Raises UnsupportedError unless every field of the Spec is one that is implemented here.
function checkSpec(spec) {
  const unknown = Object.keys(spec).filter((field) => spec[field] !== null && !KNOWN_FIELDS.has(field));
  if (unknown.length > 0) {
    throw new UnsupportedError(`fields not supported: ${unknown.join(", ")}`);
  }
  checkSteps(spec);
  checkChoices(spec);
  checkNumbers(spec);
}

// ---- Unicode ----------------------------------------------------------------------------------------------------------------

// Code points by kind, from the ranges of conformance/unicode-15.1.0.json, or of -v2.json with folds and signs.
class UnicodeTables {
  constructor(ranges) {
    this.word = UnicodeTables.members(ranges.word);
    this.single = UnicodeTables.members(ranges.single);
    this.ignorable = UnicodeTables.members(ranges.ignorable);
    this.space = UnicodeTables.members(ranges.space);
    this.frozen = UnicodeTables.members(ranges.frozen);
    this.digit = UnicodeTables.members(ranges.digit ?? []);
    this.symbol = UnicodeTables.members(ranges.symbol ?? []);
    this.below230 = UnicodeTables.members(ranges.below_230 ?? []);
    this.folds = UnicodeTables.mappings(ranges.folds ?? []);
    this.signs = UnicodeTables.mappings(ranges.signs ?? []);
  }

  static members(ranges) {
    const flags = new Uint8Array(CODE_POINTS);
    for (const [first, last] of ranges) {
      flags.fill(1, first, last + 1);
    }
    return flags;
  }

  static mappings(lists) {
    return new Map(lists.map(([first, ...others]) => [first, others]));
  }
}

// Texts are lists of code points here, because signs are code points behind those of Unicode.
const pointsOf = (text) => Array.from(text, (character) => character.codePointAt(0));
const isSign = (point) => point >= CODE_POINTS;

// NFKC of a stretch without signs and frozen code points. A fold makes a letter of U+0345 before it could compose.
function nfkcOfStretch(points, folds) {
  const text = String.fromCodePoint(...points);
  return pointsOf(folds ? text.normalize("NFKD").replaceAll("\u0345", "\u03B9").normalize("NFC") : text.normalize("NFKC"));
}

// NFKC of the stretches between signs and between frozen code points, which a newer Unicode than 15.1.0 may have given a meaning.
function nfkc(points, tables, folds) {
  const result = [];
  let stretch = [];
  const flush = () => {
    result.push(...nfkcOfStretch(stretch, folds));
    stretch = [];
  };
  for (const point of points.flatMap((each) => tables.signs.get(each) ?? [each])) {
    if (isSign(point) || tables.frozen[point]) {
      flush();
      result.push(point);
    } else {
      stretch.push(point);
    }
  }
  flush();
  return result;
}

// Version 1: simple lower case of one code point; taken alone, a final sigma cannot arise, and only U+0130 would become two.
function lowerPoint(point) {
  if (point === 0x0130) {
    return 0x69;
  }
  const lowered = pointsOf(String.fromCodePoint(point).toLowerCase());
  return lowered.length === 1 ? lowered[0] : point;
}

function lower(points, version, tables) {
  if (version === 1) {
    return points.map((point) => (tables.frozen[point] ? point : lowerPoint(point)));
  }
  return points.flatMap((point) => tables.folds.get(point) ?? [point]);
}

// Drops the dots above of an i, behind marks that do not keep them apart.
function withoutDots(points, tables) {
  const result = [];
  let afterI = false;
  for (const point of points) {
    if (point === 0x0307 && afterI) {
      continue;
    }
    afterI = point === 0x69 || (afterI && tables.below230[point] === 1);
    result.push(point);
  }
  return result;
}

function normalise(text, spec, tables) {
  if (!text.isWellFormed()) {
    throw new RangeError("the text has a surrogate without its pair, which UTF-8 cannot hold");
  }
  const { normalise: steps, version } = spec;
  const folds = version > 1 && steps.includes("lower");
  let points = pointsOf(text);
  if (steps.includes("nfkc")) {
    points = nfkc(points, tables, folds);
  }
  if (steps.includes("lower")) {
    points = lower(points, version, tables);
  }
  if (steps.includes("nfkc")) {
    points = nfkc(points, tables, folds);
    if (folds) {
      points = nfkc(withoutDots(points, tables), tables, folds);
    }
  }
  return points.filter((point) => !(tables.ignorable[point] || (folds && point === TATWEEL)));
}

// ---- Shingles ---------------------------------------------------------------------------------------------------------------

function utf8(points) {
  const parts = points.map((point) =>
    isSign(point) ? Buffer.from([0xF4, 0x90, 0x80, 0x80 + point - CODE_POINTS]) : Buffer.from(String.fromCodePoint(point), "utf8"));
  return Buffer.concat(parts);
}

// "word", "single", "space", "other" or "sign".
function kindOf(point, steps, tables) {
  if (isSign(point)) {
    return steps.includes("symbols") ? "single" : "sign";
  }
  if (tables.word[point]) {
    return "word";
  }
  if (tables.single[point] || (steps.includes("symbols") && tables.symbol[point])) {
    return "single";
  }
  return tables.space[point] ? "space" : "other";
}

// The tokens of a text, and its symbols: code point, tokens before it, and bytes before a sign inside of a token.
function tokenise(points, steps, tables) {
  const tokens = [];
  const symbols = [];
  let run = [];
  points.forEach((point, i) => {
    let kind = kindOf(point, steps, tables);
    if (kind === "sign") {
      symbols.push([point, tokens.length, utf8(run).length]);
      return;
    }
    const isHyphen = point === HYPHEN && kind === "other" && steps.includes("symbols");
    if (isHyphen && run.length === 0 && tables.digit[points[i + 1]]) {
      kind = "single";
    }
    if (kind === "word") {
      run.push(point);
      return;
    }
    if (run.length > 0) {
      tokens.push(run);
      run = [];
    }
    if (kind === "single") {
      tokens.push([point]);
    } else if (kind === "other") {
      symbols.push([point, tokens.length, 0]);
    }
  });
  return { tokens: run.length > 0 ? [...tokens, run] : tokens, symbols };
}

// The code points with folded white space, and the signs with the bytes before them.
function foldSpaces(points, steps, tables) {
  const characters = [];
  const symbols = [];
  let size = 0;
  for (const point of points) {
    if (isSign(point) && !steps.includes("symbols")) {
      symbols.push([point, 0, size]);
      continue;
    }
    const next = tables.space[point] ? SPACE : point;
    const repeats = next === SPACE && (characters.length === 0 || characters[characters.length - 1] === SPACE);
    if (!repeats) {
      characters.push(next);
      size += utf8([next]).length;
    }
  }
  if (characters[characters.length - 1] === SPACE) {
    characters.pop();
  }
  return { characters, symbols };
}

// Every stretch of n consecutive items, or all of them if there are fewer; none of an empty list.
function windows(items, n) {
  if (items.length === 0) {
    return [];
  }
  const count = Math.max(1, items.length - n + 1);
  return Array.from({ length: count }, (_, start) => items.slice(start, start + n));
}

function combineTokenHashes(tokenHashes) {
  let hash = 0n;
  for (const tokenHash of tokenHashes) {
    hash = u64(((hash ^ (hash >> 32n)) + tokenHash) * ROLLING_MULTIPLIER);
  }
  return hash ^ (hash >> 29n);
}

// What the symbols of a text add to the two sums of its content hash.
function symbolSums(symbols) {
  let low = 0n;
  let high = 0n;
  symbols.forEach(([point, tokens, within], i) => {
    const element = (BigInt(point) | (BigInt(tokens) << 21n)) ^ u64(BigInt(within) * SPLITMIX_MULTIPLIER_1);
    let x = u64((element ^ u64(BigInt(i + 1) * SPLITMIX_INCREMENT)) * ROLLING_MULTIPLIER);
    x = u64((x ^ (x >> 32n)) * BAND_MULTIPLIER);
    x ^= x >> 29n;
    const y = u64(x * SPLITMIX_INCREMENT);
    low = u64(low + x);
    high = u64(high + (y ^ (y >> 32n)));
  });
  return [low, high];
}

// The hashes of the shingles of a text, in the order of the text, repeats included, and its symbols.
function contentOf(text, spec, tables) {
  const clean = normalise(text, spec, tables);
  const seed = BigInt(spec.hash_seed);
  const n = Number(spec.n);
  const hashPoints = (points) => xxh3(utf8(points), seed);
  if (spec.unit === "chars") {
    const { characters, symbols } = foldSpaces(clean, spec.normalise, tables);
    return { shingles: windows(characters, n).map(hashPoints), symbols };
  }
  const { tokens, symbols } = tokenise(clean, spec.normalise, tables);
  if (spec.version > 1 && tokens.length === 0 && symbols.length > 0) {
    return { shingles: [mix64(symbolSums(symbols)[0] ^ BigInt(symbols.length))], symbols };
  }
  return { shingles: windows(tokens.map(hashPoints), n).map(combineTokenHashes), symbols };
}

function shingleHashes(text, spec, tables) {
  return contentOf(text, spec, tables).shingles;
}

// The two words of the content hash of version 2, which are equal for exact duplicates.
function contentHash(text, spec, tables) {
  const { shingles, symbols } = contentOf(text, spec, tables);
  let [low, high] = symbolSums(symbols);
  shingles.forEach((hash, i) => {
    let t = u64((hash ^ u64(BigInt(i) * SPLITMIX_INCREMENT)) * ROLLING_MULTIPLIER);
    t ^= t >> 32n;
    const u = u64(t * SPLITMIX_INCREMENT);
    low = u64(low + t);
    high = u64(high + (u ^ (u >> 29n)));
  });
  const size = BigInt(shingles.length);
  return [mix64(u64(low + size)), mix64(high ^ size)];
}

// ---- Signatures -------------------------------------------------------------------------------------------------------------

// The finaliser of SplitMix64.
function mix64(value) {
  let mixed = value;
  mixed = u64((mixed ^ (mixed >> 30n)) * SPLITMIX_MULTIPLIER_1);
  mixed = u64((mixed ^ (mixed >> 27n)) * SPLITMIX_MULTIPLIER_2);
  return mixed ^ (mixed >> 31n);
}

// The first outputs of SplitMix64: the state is incremented before each of them.
function splitMix64(seed, count) {
  return Array.from({ length: count }, (_, i) => mix64(u64(seed + BigInt(i + 1) * SPLITMIX_INCREMENT)));
}

function lowerSlot(slots, slot, value) {
  if (value < slots[slot]) {
    slots[slot] = value;
  }
}

function binnedRound(slots, hashes, round, multiplier) {
  const k = BigInt(slots.length);
  for (const hash of hashes) {
    const product = u64(hash * multiplier);
    const high = product >> 32n;
    const mixed = Number(BigInt.asUintN(32, product ^ high));
    lowerSlot(slots, Number((high * k) >> 32n), round * ROUND_UNIT + (mixed >>> 3));
  }
}

// Only a slot that no round has reached can take anything here: all values of the rounds are lower.
function binnedCompletion(slots, hashes, multipliers) {
  const openSlots = [...slots.keys()].filter((slot) => slots[slot] === EMPTY_SLOT);
  for (const hash of openSlots.length > 0 ? hashes : []) {
    const high = Number(hash >> 32n);
    for (const slot of openSlots) {
      const mixed = Math.imul(high, multipliers[slot]) >>> 0;
      lowerSlot(slots, slot, BINNED_ROUNDS * ROUND_UNIT + (mixed >>> 3));
    }
  }
}

function binnedSignature(hashes, k, seed) {
  const slots = new Uint32Array(k).fill(EMPTY_SLOT);
  const odd = splitMix64(seed, BINNED_ROUNDS + k).map((value) => value | 1n);
  for (let round = 0; round < BINNED_ROUNDS; round += 1) {
    binnedRound(slots, hashes, round, odd[round]);
  }
  binnedCompletion(slots, hashes, odd.slice(BINNED_ROUNDS).map((value) => Number(BigInt.asUintN(32, value))));
  return slots;
}

function classicSignature(hashes, k, seed) {
  const slots = new Uint32Array(k).fill(EMPTY_SLOT);
  const stream = splitMix64(seed, 2 * k);
  for (const hash of hashes) {
    const high = hash >> 32n;
    for (let slot = 0; slot < k; slot += 1) {
      const value = u64(stream[slot] * high + stream[k + slot]) >> 32n;
      lowerSlot(slots, slot, Number(value < CLASSIC_MAXIMUM ? value : CLASSIC_MAXIMUM));
    }
  }
  return slots;
}

// The k slots of the set of shingle hashes, as a Uint32Array.
function signature(hashes, spec) {
  const build = spec.scheme === "binned" ? binnedSignature : classicSignature;
  return build(new Set(hashes), Number(spec.k), BigInt(spec.seed));
}

// ---- Band keys --------------------------------------------------------------------------------------------------------------

// The salt of a block's value as text; null for the block of documents without a value.
function blockSalt(value) {
  if (value === null) {
    return NULL_BLOCK_SALT;
  }
  return createHash("sha256").update(value, "utf8").digest().readBigUInt64LE(0);
}

function bandKey(slots, band, salt) {
  let hash = mix64(u64(salt + BigInt(band + 1) * SPLITMIX_INCREMENT));
  for (const slot of slots) {
    hash = u64((hash ^ BigInt(slot)) * BAND_MULTIPLIER);
    hash ^= hash >> 32n;
  }
  return mix64(hash);
}

// The keys of all bands, as BigInt.
function bandKeys(slots, bands, rows, salt = 0n) {
  if (bands * rows > slots.length) {
    throw new RangeError(`${bands} bands of ${rows} rows do not fit into ${slots.length} slots`);
  }
  return Array.from({ length: bands }, (_, band) => bandKey(slots.slice(band * rows, (band + 1) * rows), band, salt));
}

module.exports = {
  UnicodeTables,
  UnsupportedError,
  bandKeys,
  blockSalt,
  canonicalJson,
  checkSpec,
  contentHash,
  fingerprint,
  normalise,
  parseJson,
  shingleHashes,
  signature,
  tokenise,
};
