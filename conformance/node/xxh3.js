// XXH3, the 64-bit variant with a seed, for inputs of every length, after the public xxHash specification.
//
// Plain and slow on purpose: arithmetic on 64 bits is BigInt, each branch of the specification is a function of its own.

"use strict";

const PRIME32_1 = 0x9E3779B1n;
const PRIME32_2 = 0x85EBCA77n;
const PRIME32_3 = 0xC2B2AE3Dn;
const PRIME64_1 = 0x9E3779B185EBCA87n;
const PRIME64_2 = 0xC2B2AE3D27D4EB4Fn;
const PRIME64_3 = 0x165667B19E3779F9n;
const PRIME64_4 = 0x85EBCA77C2B2AE63n;
const PRIME64_5 = 0x27D4EB2F165667C5n;
const PRIME_MX1 = 0x165667919E3779F9n;
const PRIME_MX2 = 0x9FB21C651E98DF25n;

const MASK32 = 0xFFFFFFFFn;
const STRIPE_BYTES = 64;
const LANES = 8;
const SECRET_STEP = 8; // bytes by which the secret advances from one stripe to the next

const SECRET = Buffer.from(
  "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f" +
  "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c" +
  "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
  "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364" +
  "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e" +
  "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e",
  "hex",
);

const u64 = (value) => BigInt.asUintN(64, value);
const read32 = (bytes, offset) => BigInt(bytes.readUInt32LE(offset));
const read64 = (bytes, offset) => bytes.readBigUInt64LE(offset);
const rotateLeft = (value, bits) => u64((value << bits) | (value >> (64n - bits)));

function reverseBytes(value, byteCount) {
  let reversed = 0n;
  for (let i = 0n; i < byteCount; i += 1n) {
    reversed = (reversed << 8n) | ((value >> (8n * i)) & 0xFFn);
  }
  return reversed;
}

// The two halves of the 128-bit product, combined by exclusive or.
function foldProduct(left, right) {
  const product = left * right;
  return u64(product) ^ (product >> 64n);
}

function avalanche(hash) {
  const mixed = u64((hash ^ (hash >> 37n)) * PRIME_MX1);
  return mixed ^ (mixed >> 32n);
}

function avalancheOfXxh64(hash) {
  let mixed = u64((hash ^ (hash >> 33n)) * PRIME64_2);
  mixed = u64((mixed ^ (mixed >> 29n)) * PRIME64_3);
  return mixed ^ (mixed >> 32n);
}

function hashEmpty(seed) {
  return avalancheOfXxh64(seed ^ read64(SECRET, 56) ^ read64(SECRET, 64));
}

function hash1to3(input, seed) {
  const length = input.length;
  const first = BigInt(input[0]);
  const middle = BigInt(input[length >> 1]);
  const last = BigInt(input[length - 1]);
  const combined = (first << 16n) | (middle << 24n) | last | (BigInt(length) << 8n);
  const flip = u64((read32(SECRET, 0) ^ read32(SECRET, 4)) + seed);
  return avalancheOfXxh64(combined ^ flip);
}

function hash4to8(input, seed) {
  const length = BigInt(input.length);
  const spreadSeed = seed ^ (reverseBytes(seed & MASK32, 4n) << 32n);
  const flip = u64((read64(SECRET, 8) ^ read64(SECRET, 16)) - spreadSeed);
  const head = read32(input, 0);
  const tail = read32(input, input.length - 4);
  let hash = u64(tail + (head << 32n)) ^ flip;
  hash ^= rotateLeft(hash, 49n) ^ rotateLeft(hash, 24n);
  hash = u64(hash * PRIME_MX2);
  hash ^= u64((hash >> 35n) + length);
  hash = u64(hash * PRIME_MX2);
  return hash ^ (hash >> 28n);
}

function hash9to16(input, seed) {
  const flipLow = u64((read64(SECRET, 24) ^ read64(SECRET, 32)) + seed);
  const flipHigh = u64((read64(SECRET, 40) ^ read64(SECRET, 48)) - seed);
  const low = read64(input, 0) ^ flipLow;
  const high = read64(input, input.length - 8) ^ flipHigh;
  return avalanche(u64(BigInt(input.length) + reverseBytes(low, 8n) + high + foldProduct(low, high)));
}

function mix16(input, inputOffset, secretOffset, seed) {
  const low = read64(input, inputOffset) ^ u64(read64(SECRET, secretOffset) + seed);
  const high = read64(input, inputOffset + 8) ^ u64(read64(SECRET, secretOffset + 8) - seed);
  return foldProduct(low, high);
}

function hash17to128(input, seed) {
  const length = input.length;
  let total = BigInt(length) * PRIME64_1;
  for (let i = (length - 1) >> 5; i >= 0; i -= 1) {
    total += mix16(input, 16 * i, 32 * i, seed);
    total += mix16(input, length - 16 * (i + 1), 32 * i + 16, seed);
  }
  return avalanche(u64(total));
}

function hash129to240(input, seed) {
  const length = input.length;
  const rounds = length >> 4;
  let total = BigInt(length) * PRIME64_1;
  for (let i = 0; i < 8; i += 1) {
    total += mix16(input, 16 * i, 16 * i, seed);
  }
  total = avalanche(u64(total));
  for (let i = 8; i < rounds; i += 1) {
    total += mix16(input, 16 * i, 16 * (i - 8) + 3, seed);
  }
  total += mix16(input, length - 16, 136 - 17, seed);
  return avalanche(u64(total));
}

function deriveSecret(seed) {
  const derived = Buffer.alloc(SECRET.length);
  for (let offset = 0; offset < SECRET.length; offset += 16) {
    derived.writeBigUInt64LE(u64(read64(SECRET, offset) + seed), offset);
    derived.writeBigUInt64LE(u64(read64(SECRET, offset + 8) - seed), offset + 8);
  }
  return derived;
}

function accumulateStripe(lanes, input, inputOffset, secret, secretOffset) {
  for (let i = 0; i < LANES; i += 1) {
    const value = read64(input, inputOffset + 8 * i);
    const keyed = value ^ read64(secret, secretOffset + 8 * i);
    lanes[i ^ 1] = u64(lanes[i ^ 1] + value);
    lanes[i] = u64(lanes[i] + (keyed & MASK32) * (keyed >> 32n));
  }
}

function scramble(lanes, secret) {
  const offset = secret.length - STRIPE_BYTES;
  for (let i = 0; i < LANES; i += 1) {
    const mixed = lanes[i] ^ (lanes[i] >> 47n) ^ read64(secret, offset + 8 * i);
    lanes[i] = u64(mixed * PRIME32_1);
  }
}

function mergeLanes(lanes, secret, length) {
  let total = BigInt(length) * PRIME64_1;
  for (let i = 0; i < LANES; i += 2) {
    total += foldProduct(lanes[i] ^ read64(secret, 11 + 8 * i), lanes[i + 1] ^ read64(secret, 19 + 8 * i));
  }
  return avalanche(u64(total));
}

function hashLong(input, seed) {
  const secret = deriveSecret(seed);
  const stripesPerBlock = (secret.length - STRIPE_BYTES) / SECRET_STEP;
  const stripes = Math.floor((input.length - 1) / STRIPE_BYTES);
  const lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
  for (let i = 0; i < stripes; i += 1) {
    const place = i % stripesPerBlock;
    accumulateStripe(lanes, input, STRIPE_BYTES * i, secret, SECRET_STEP * place);
    if (place === stripesPerBlock - 1) {
      scramble(lanes, secret);
    }
  }
  accumulateStripe(lanes, input, input.length - STRIPE_BYTES, secret, secret.length - STRIPE_BYTES - 7);
  return mergeLanes(lanes, secret, input.length);
}

function hashBranch(length) {
  if (length <= 3) return hash1to3;
  if (length <= 8) return hash4to8;
  if (length <= 16) return hash9to16;
  if (length <= 128) return hash17to128;
  if (length <= 240) return hash129to240;
  return hashLong;
}

// XXH3-64 of a Buffer with a seed (BigInt, taken modulo 2^64), as a BigInt.
function xxh3(input, seed = 0n) {
  const key = u64(seed);
  return input.length === 0 ? hashEmpty(key) : hashBranch(input.length)(input, key);
}

module.exports = { xxh3 };
