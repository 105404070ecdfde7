# Cuts a commit that is not whole off the end of Redis' append-only file in the directory $folder. Redis itself keeps
# it, writes behind it, and applies it with the next one at a later start (valkey-io/valkey#4342).
# What is cut is kept beside the file. More than a second's worth is no such commit: then nothing is changed.
set -eu
most=${MOST_BYTES:-67108864}
manifest=$folder/appendonlydir/appendonly.aof.manifest
if [ -e "$manifest" ] && ! found=$(redis-check-aof "$manifest" 2>&1); then
  file=$(echo "$found" | sed -n 's/.*filename=\([^,]*\),.*diff=[1-9].*/\1/p' | tail -n 1)
  cut=$(echo "$found" | sed -n 's/.*diff=\([1-9][0-9]*\).*/\1/p' | tail -n 1)
  if [ -z "$cut" ] || [ "$cut" -gt "$most" ]; then
    echo "$found" >&2
    echo "The append-only file is damaged: a repair would cut ${cut:-all} bytes off, more than the $most of a second." \
      "Restore a backup (docs/back-up.md), or set MOST_BYTES=${cut:-} to lose them." >&2
    exit 1
  fi
  tail -c "$cut" "$folder/appendonlydir/$file" > "$folder/$file.cut"
  echo "Cutting the last $cut bytes off $file, a commit that is not whole; they are kept in $folder/$file.cut" >&2
  echo y | redis-check-aof --fix "$manifest" >&2
fi
