// work.js FILES... - a node program: objects, buffers, compression, worker threads, regular expressions
'use strict';
const { createHash } = require('crypto');
const fs = require('fs');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const hash = (data) => createHash('sha256').update(data).digest('hex');

function countWords(text) {
  const words = new Map();
  for (const [word] of text.matchAll(/[A-Za-z_]\w*/g)) words.set(word, (words.get(word) || 0) + 1);
  return words;
}

function buffers(seed) {
  let value = seed;
  const kept = [];
  for (let i = 0; i < 20000; i++) {
    value = (value * 1103515245 + 12345) % 2147483648;
    kept[value % 500] = Buffer.alloc(value % 5000, i % 256);
  }
  return hash(Buffer.concat(kept.filter(Boolean)));
}

async function main(paths) {
  const text = paths.map((path) => fs.readFileSync(path, 'utf8')).join('\n');
  const words = [...countWords(text)].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  for (const [word, count] of words.slice(0, 15)) console.log(String(count).padStart(8), word);

  const data = JSON.stringify(words.map(([word, count], i) => ({ word, count, next: words.slice(i, i + 3) })));
  console.log('json', hash(JSON.stringify(JSON.parse(data), null, 1)));
  const squeezed = await Promise.all(
    [1, 6, 9].map((level) => new Promise((done, fail) =>
      zlib.deflate(text, { level }, (error, out) => (error ? fail(error) : done(out))))));
  for (const out of squeezed) console.log('zlib', zlib.inflateSync(out).toString() === text, out.length);
  console.log('brotli', zlib.brotliDecompressSync(zlib.brotliCompressSync(Buffer.from(text.slice(0, 300000)),
    { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } })).length);
  console.log('buffers', buffers(42));

  const results = await Promise.all([1, 2, 3, 4].map((seed) => new Promise((done, fail) => {
    const worker = new Worker(__filename, { workerData: { seed, text: text.slice(0, 200000) } });
    worker.on('message', done);
    worker.on('error', fail);
  })));
  console.log('workers', results.join(' '));
}

if (isMainThread) {
  main(process.argv.slice(2));
} else {
  const { seed, text } = workerData;
  parentPort.postMessage(`${buffers(seed).slice(0, 12)}:${countWords(text).size}`);
}
