<?php
// work.php FILES... - a php program: arrays, strings, objects in rings, sorting, serialising, regular expressions
class Node
{
    public ?Node $next = null;
    public array $children = [];

    public function __construct(public string $name)
    {
    }
}

$words = [];
$text = '';
foreach (array_slice($argv, 1) as $path) {
    $text .= file_get_contents($path);
}
preg_match_all('/[A-Za-z_]\w*/', $text, $found);
foreach ($found[0] as $word) {
    $words[$word] = ($words[$word] ?? 0) + 1;
}
uksort($words, fn($a, $b) => $words[$b] <=> $words[$a] ?: strcmp($a, $b));
foreach (array_slice($words, 0, 15) as $word => $count) {
    printf("%8d %s\n", $count, $word);
}

$rings = 0;
for ($i = 0; $i < 20000; $i++) {
    $a = new Node("a$i");
    $b = new Node(str_repeat('b', $i % 200));
    $a->next = $b;
    $b->next = $a;
    $a->children = [$b, $a, range(0, $i % 10)];
    $rings += strlen($b->name);
}
echo "rings: $rings ", gc_collect_cycles() >= 0 ? 'collected' : '', "\n";

$lines = explode("\n", $text);
sort($lines, SORT_STRING);
echo 'sorted: ', hash('sha256', implode("\n", $lines)), "\n";
echo 'serialised: ', hash('sha256', serialize(unserialize(serialize($words)))), "\n";
echo 'json: ', hash('sha256', json_encode(json_decode(json_encode($words), true), JSON_PRETTY_PRINT)), "\n";
$replaced = preg_replace_callback('/\bdef (\w+)/', fn($m) => 'function ' . strrev($m[1]), $text);
echo 'replaced: ', hash('sha256', $replaced), "\n";
$total = 0;
foreach ((function () use ($lines) {
    foreach ($lines as $line) {
        yield ucwords($line) . "\t";
    }
})() as $piece) {
    $total += strlen($piece);
}
echo "generated: $total\n";
