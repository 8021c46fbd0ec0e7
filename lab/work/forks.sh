# forks.sh - a bash script full of forks: every kind of child process that a script can have
set -u
sum=0
for i in $(seq 200); do
  sum=$((sum + $(echo "$i" | sed 's/^/1/')))
done
echo "substitutions: $sum"

nest() { if [ "$1" -gt 0 ]; then (nest $(($1 - 1))); else echo "bottom"; fi; }
echo "subshells: $(nest 25)"

jobs=()
for i in $(seq 60); do
  (exit $((i % 7))) &
  jobs+=($!)
done
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=$((failed + 1)); done
echo "background jobs that failed: $failed"

seq 20000 | sort -R --random-source=<(yes) | awk '{ print $1 % 97 }' | sort -n | uniq -c | head -5
echo "pipeline: ${PIPESTATUS[*]}"

coproc cat
for i in 1 2 3; do
  echo "message $i" >&"${COPROC[1]}"
  read -r line <&"${COPROC[0]}"
  echo "coprocess: $line"
done
exec {COPROC[1]}>&-
wait

declare -A words
while read -r word rest; do
  words[$word]="${words[$word]:-}${rest:0:3}"
done < <(for i in $(seq 3000); do echo "w$((i % 211)) $((i * 7919))"; done)
for word in w1 w100 w210; do echo "$word ${#words[$word]} ${words[$word]:0:40}"; done

text=$(printf 'line %s\n' {1..4000})
echo "lines: $(grep -c . <<<"$text") longest: $(wc -L <<<"$text")"
trap 'echo "a trap ran in $(echo a child)"' USR1
kill -USR1 $$
bash -c 'for i in {1..30}; do bash -c "true" || exit; done; exit 42'
echo "exit code $?"
