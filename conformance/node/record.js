// Single records: one signature by itself, as bytes. Written and read after docs/reference/wire-format.md, format versions 1 and 2, family 1.
//
// A reader checks length, magic, version, checksum, fingerprint and header in this order; each failure has its own error class.

"use strict";

const { fingerprint } = require("./sketch.js");
const { xxh3 } = require("./xxh3.js");

const MAGIC = Buffer.from("NKSG", "latin1");
const VERSIONS = [1, 2];
const FAMILY_MINHASH = 1;
const SLOT_BITS = 32;

const VERSION_OFFSET = 4;
const FAMILY_OFFSET = 5;
const SLOT_BITS_OFFSET = 6;
const RESERVED_OFFSET = 7;
const K_OFFSET = 8;
const FINGERPRINT_OFFSET = 12;
const SHINGLES_OFFSET = 20;
const PAYLOAD_BYTES_OFFSET = 24;
const PAYLOAD_OFFSET = 28;
const CHECKSUM_BYTES = 8;

class RecordError extends Error {
  constructor(message) {
    super(message);
    this.name = this.constructor.name;
  }
}

class TruncatedRecordError extends RecordError {} // the bytes are not as many as the header says
class BadMagicError extends RecordError {}
class UnknownVersionError extends RecordError {}
class WrongChecksumError extends RecordError {}
class ForeignFingerprintError extends RecordError {} // written under another Spec
class HeaderMismatchError extends RecordError {} // the header contradicts the Spec

function writeHeader(record, k, shingles, spec) {
  MAGIC.copy(record, 0);
  record.writeUInt8(spec.version, VERSION_OFFSET);
  record.writeUInt8(FAMILY_MINHASH, FAMILY_OFFSET);
  record.writeUInt8(SLOT_BITS, SLOT_BITS_OFFSET);
  record.writeUInt8(0, RESERVED_OFFSET);
  record.writeUInt32LE(k, K_OFFSET);
  record.write(fingerprint(spec), FINGERPRINT_OFFSET, "hex");
  record.writeUInt32LE(shingles, SHINGLES_OFFSET);
  record.writeUInt32LE(4 * k, PAYLOAD_BYTES_OFFSET);
}

// Sets the last 8 bytes of a record to the checksum of all bytes before them.
function seal(record) {
  const end = record.length - CHECKSUM_BYTES;
  record.writeBigUInt64LE(xxh3(record.subarray(0, end), 0n), end);
  return record;
}

// The record of a signature (Uint32Array) whose document has so many shingles, repeats included.
function writeRecord(slots, shingles, spec) {
  if (slots.length !== Number(spec.k)) {
    throw new HeaderMismatchError(`the signature has ${slots.length} slots, the Spec ${spec.k}`);
  }
  const record = Buffer.alloc(PAYLOAD_OFFSET + 4 * slots.length + CHECKSUM_BYTES);
  writeHeader(record, slots.length, shingles, spec);
  slots.forEach((slot, i) => record.writeUInt32LE(slot, PAYLOAD_OFFSET + 4 * i));
  return seal(record);
}

function checkLength(record) {
  const least = PAYLOAD_OFFSET + CHECKSUM_BYTES;
  if (record.length < least) {
    throw new TruncatedRecordError(`${record.length} bytes, a record has at least ${least}`);
  }
  const whole = least + record.readUInt32LE(PAYLOAD_BYTES_OFFSET);
  if (record.length !== whole) {
    throw new TruncatedRecordError(`${record.length} bytes, the header says ${whole}`);
  }
}

function checkMagicAndVersion(record) {
  if (!record.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new BadMagicError(`the record begins with ${record.toString("hex", 0, MAGIC.length)}`);
  }
  if (!VERSIONS.includes(record[VERSION_OFFSET])) {
    throw new UnknownVersionError(`format version ${record[VERSION_OFFSET]}, only ${VERSIONS.join(" and ")} are known`);
  }
}

function checkChecksum(record) {
  const end = record.length - CHECKSUM_BYTES;
  if (record.readBigUInt64LE(end) !== xxh3(record.subarray(0, end), 0n)) {
    throw new WrongChecksumError("the checksum does not belong to the bytes before it");
  }
}

function checkFingerprint(record, spec) {
  const found = record.toString("hex", FINGERPRINT_OFFSET, SHINGLES_OFFSET);
  const expected = fingerprint(spec);
  if (found !== expected) {
    throw new ForeignFingerprintError(`the record's Spec is ${found}, not ${expected}`);
  }
}

function checkHeader(record, spec) {
  const k = Number(spec.k);
  const fields = [
    ["version", record[VERSION_OFFSET], spec.version],
    ["family", record[FAMILY_OFFSET], FAMILY_MINHASH],
    ["slot bits", record[SLOT_BITS_OFFSET], spec.slot_bits],
    ["reserved byte", record[RESERVED_OFFSET], 0],
    ["k", record.readUInt32LE(K_OFFSET), k],
    ["payload bytes", record.readUInt32LE(PAYLOAD_BYTES_OFFSET), 4 * k],
  ];
  for (const [name, found, expected] of fields) {
    if (found !== expected) {
      throw new HeaderMismatchError(`${name} is ${found}, the Spec means ${expected}`);
    }
  }
}

// The signature and the number of shingles of a record (Buffer) that was written under this Spec.
function readRecord(record, spec) {
  checkLength(record);
  checkMagicAndVersion(record);
  checkChecksum(record);
  checkFingerprint(record, spec);
  checkHeader(record, spec);
  const slots = new Uint32Array(Number(spec.k));
  for (let i = 0; i < slots.length; i += 1) {
    slots[i] = record.readUInt32LE(PAYLOAD_OFFSET + 4 * i);
  }
  return { signature: slots, shingles: record.readUInt32LE(SHINGLES_OFFSET) };
}

module.exports = {
  BadMagicError,
  ForeignFingerprintError,
  HeaderMismatchError,
  RecordError,
  TruncatedRecordError,
  UnknownVersionError,
  WrongChecksumError,
  readRecord,
  seal,
  writeRecord,
};
