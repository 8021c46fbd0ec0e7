# work.rb FILES... - a ruby program: strings, hashes, symbols, threads, fibers, marshalling, collected now and then
require 'digest'
require 'json'
require 'set'

words = Hash.new(0)
lines = ARGV.flat_map { |path| File.readlines(path, encoding: 'utf-8') }
lines.each { |line| line.scan(/[A-Za-z_]\w*/) { |word| words[word.to_sym] += 1 } }
GC.start
top = words.sort_by { |word, count| [-count, word] }.first(15)
top.each { |word, count| puts format('%8d %s', count, word) }

tree = Struct.new(:left, :right)
grow = ->(depth) { depth.zero? ? tree.new : tree.new(grow.(depth - 1), grow.(depth - 1)) }
count = ->(node) { node.nil? ? 0 : 1 + count.(node.left) + count.(node.right) }
puts "trees: #{(1..12).sum { count.(grow.(12)) }}"

copies = Marshal.load(Marshal.dump(lines.map(&:dup)))
puts "marshalled: #{copies == lines}"
text = JSON.generate(lines.each_slice(50).map { |part| { 'text' => part.join, 'sizes' => part.map(&:size) } })
puts "json: #{Digest::SHA256.hexdigest(JSON.pretty_generate(JSON.parse(text)))}"

parts = 8.times.map do |n|
  Thread.new { (0...4000).map { |i| (lines[(i * 7 + n) % lines.size] * (i % 5)).tr('a-y', 'b-z') }.join.hash.class && n * n }
end
puts "threads: #{parts.sum(&:value)}"

fiber = Fiber.new { 5000.times { |i| Fiber.yield('x' * (i % 300)) }; nil }
total = 0
while (piece = fiber.resume)
  total += piece.size
end
puts "fiber: #{total}"
big = (1..400).inject(:*)
puts "factorial: #{Digest::MD5.hexdigest(big.to_s)} #{Set.new(big.digits).size}"
GC.start
puts "reversed: #{Digest::SHA256.hexdigest(lines.reverse.map(&:reverse).join)}"
