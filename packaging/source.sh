# source.sh - sourced by the scripts beside it. source_tree FOLDER: what the repository has, without what git ignores,
# goes to FOLDER/freehold-VERSION, whose name is printed. All files are as old as the release, so that packages do not
# depend on the day.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
source_version() {
  sed -n 's/^#define FH_VERSION_[MP][A-Z]* //p; s/^#define FH_VERSION_MINOR //p' include/freehold/freehold.h | paste -sd.
}
source_tree() {
  tree=$1/freehold-$(source_version)
  mkdir -p "$tree"
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read --files-from=- -cf - 2>/dev/null | tar -C "$tree" -xf -
  else
    tar --exclude=./build --exclude=__pycache__ -cf - . | tar -C "$tree" -xf -
  fi
  find "$tree" -exec touch -h -d "$(sed -n 's/^ -- .*>  //p' packaging/debian/changelog | head -n 1)" {} +
  echo "$tree"
}
