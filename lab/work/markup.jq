# Reads a document of nested tags and writes it anew, with neighbours of one style joined. Then it reads that to see
# that the styles are the same. In jq, a functional language: every value is new, and comes from malloc.
#   jq -Rrs -f markup.jq document.txt

# The text as a list of tags and words: {open}, {close} or {text}.
def tokens:
  [ scan("<(/?)([a-z]+)>|([^<]+)")
    | if .[2] != null then { text: .[2] } elif .[0] == "/" then { close: .[1] } else { open: .[1] } end ];

# The style inside a tag. b, i and u add up, the others replace one another, p takes all away.
def styled(tag):
  if tag == "p" then { }
  elif (tag | IN("b", "i", "u")) then . + { (tag): true }
  else . + { colour: tag } end;

# Every piece of text with the style that holds there.
def pieces:
  reduce .[] as $t ({ stack: [{ }], found: [] };
    if $t.open then .stack += [.stack[-1] | styled($t.open)]
    elif $t.close then .stack |= .[:-1]
    else .found += [{ style: .stack[-1], text: $t.text }] end)
  | .found;

# Neighbours of one style become one piece; white space has none but underlining.
def joined:
  reduce .[] as $p ([];
    ($p | if .text | test("^\\s+$") then .style |= with_entries(select(.key == "u")) else . end) as $q
    | if length > 0 and .[-1].style == $q.style then .[-1].text += $q.text else . + [$q] end);

def tags: [ (.colour // empty), (["b", "i", "u"][] as $k | select(.[$k]) | $k) ];

def written:
  map((.style | tags) as $t | ($t | map("<\(.)>") | join("")) + .text + ($t | reverse | map("</\(.)>") | join("")))
  | join("");

tokens as $before | ($before | pieces | joined | written) as $text
| ($text | tokens) as $after
| ($after | pieces | joined | written) as $again
| "\($before | length) tokens, \($after | length) after it, \($text | length) characters, "
  + (if ($after | pieces | joined) == ($before | pieces | joined) then "the same styles" else "other styles" end)
  + (if $again == $text then ", nothing more to gain" else "" end)
