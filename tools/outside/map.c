/* map.c - `freehold map`: every window, slice by slice
 * Contract: commands.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/heap/visit.h"
#include "../../src/os/os.h"
#include "../../src/slab/span.h"
#include "../../src/stock/huge.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"

/* What is in a slice; of a slab its tenth that is live, '0' to '9'. */
enum {
  MAP_UNMAPPED = ' ',
  MAP_CLEAN = '.',
  MAP_DIRTY = '-',
  MAP_RECORDS = 'm',
  MAP_KEPT = '=',
  MAP_LARGE = 'L',
  MAP_LARGE_REST = 'l',
  MAP_SPAN = 'p',
};
static const char legend[] =
  "0 to 9: a slab, by tenths that are live; L: a large block, l: more of it; p: blocks of pages;\n"
  "=: kept by a thread; -: free, not yet given back; .: free; m: descriptors and maps;\n"
  "a blank: not mapped\n";

typedef struct {
  uintptr_t at;
  size_t mapped; /* slices */
  char slices[WINDOW_SLICES];
} window_t;

typedef struct {
  uintptr_t at;
  uint64_t size;
} mapping_t;

typedef struct {
  window_t *windows;
  size_t window_count;
  mapping_t *huge;
  size_t huge_count;
} map_t;

/* ---- reading --------------------------------------------------------------------------------- */

static char state_of_free(const arena_t *a, size_t slice) {
  const arena_maps_t *maps = arena_maps(a);
  uint64_t bit = (uint64_t)1 << slice % 64;
  if ((atomic64_load_relaxed(&maps->unmapped[slice / 64]) & bit) != 0) return MAP_UNMAPPED;
  if ((atomic64_load_relaxed(&a->free[slice / 64]) & bit) == 0) return MAP_KEPT;
  return (atomic64_load_relaxed(&maps->dirty[slice / 64]) & bit) != 0 ? MAP_DIRTY : MAP_CLEAN;
}

static char state_of_slab(const slab_t *s, uint32_t word) {
  size_t tenth = (size_t)slab_live(s) * 10 / class_info[word].capacity;
  return (char)('0' + (tenth < 9 ? tenth : 9));
}

static void read_window(window_t *w, const arena_t *a) {
  w->at = (uintptr_t)a;
  w->mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
  memset(w->slices, MAP_UNMAPPED, sizeof w->slices);
  memset(w->slices, MAP_RECORDS, min_size(ARENA_FIRST_SLICE, w->mapped));
  for (size_t slice = a->first; slice < w->mapped; slice++) {
    const slab_t *s = slab_of(arena_address(a, slice));
    uint32_t word = slab_word(s);
    bool is_free = (atomic64_load_relaxed(&a->free[slice / 64]) >> slice % 64 & 1) != 0;
    if (is_free || slab_kind(word) == SLAB_NONE) w->slices[slice] = state_of_free(a, slice);
    else if (slab_kind(word) == SLAB_SMALL && word < CLASS_COUNT)
      w->slices[slice] = state_of_slab(s, word);
    else if (slab_kind(word) == SLAB_SPAN) {
      memset(w->slices + slice, MAP_SPAN, min_size(SPAN_SLICES, w->mapped - slice));
      slice += SPAN_SLICES - 1;
    } else if (slab_kind(word) == SLAB_LARGE) {
      size_t n = min_size(atomic16_load_relaxed(&s->slices), w->mapped - slice);
      if (n == 0) continue;
      memset(w->slices + slice, MAP_LARGE_REST, n);
      w->slices[slice] = MAP_LARGE;
      slice += n - 1;
    }
  }
}

static void read_map(void *context) {
  map_t *m = context;
  size_t arenas = arena_count(), records = huge_pool_size();
  m->windows = realloc(m->windows, (arenas + 1) * sizeof *m->windows);
  m->huge = realloc(m->huge, (records + 1) * sizeof *m->huge);
  if (m->windows == NULL || m->huge == NULL) abort();
  m->window_count = m->huge_count = 0;
  for (size_t i = 0; i < arenas; i++)
    if (arena_at(i) != NULL) read_window(&m->windows[m->window_count++], arena_at(i));
  const huge_t *b;
  for (size_t i = 0; m->huge_count < records && (b = huge_next(&i)) != NULL;)
    m->huge[m->huge_count++] =
      (mapping_t){(uintptr_t)huge_base(b), atomic64_load_relaxed(&b->size)};
}

/* ---- text ------------------------------------------------------------------------------------ */

/* What most of a group's slices are; of slabs, how full they are together. */
static char state_of_group(const char *slices) {
  size_t slabs = 0, tenths = 0, count[128] = {0}, most = MAP_UNMAPPED;
  for (size_t i = 0; i < 64; i++) {
    unsigned char c = (unsigned char)slices[i];
    if (c >= '0' && c <= '9') {
      slabs++;
      tenths += (size_t)(c - '0');
    } else count[c == MAP_LARGE_REST ? MAP_LARGE : c]++;
  }
  for (size_t c = 0; c < sizeof count / sizeof *count; c++)
    if (count[c] > count[most]) most = c;
  return slabs != 0 && slabs >= count[most] ? (char)('0' + tenths / slabs) : (char)most;
}

static void write_text(const map_t *m) {
  enum { SHOWN_MOST = 4096 }; /* slices that are shown one by one */
  size_t mapped = 0;
  for (size_t i = 0; i < m->window_count; i++) mapped += m->windows[i].mapped;
  bool by_slice = mapped <= SHOWN_MOST;
  printf("%s: %zu windows, %zu huge blocks; each letter is %s\n%s", target_title(), m->window_count,
         m->huge_count, by_slice ? "a slice, 64 KiB" : "64 slices, 4 MiB", legend);
  for (size_t i = 0; i < m->window_count; i++) {
    const window_t *w = &m->windows[i];
    size_t step = by_slice ? 1 : 64;
    printf("window %#lx, %s mapped\n", (unsigned long)w->at,
           outside_size((uint64_t)w->mapped << SLICE_SHIFT));
    for (size_t slice = 0; slice < w->mapped; slice += 64 * step) {
      printf("  %#12lx ", (unsigned long)(w->at + (slice << SLICE_SHIFT)));
      for (size_t k = slice; k < slice + 64 * step && k < w->mapped; k += step)
        putchar(by_slice ? w->slices[k] : state_of_group(w->slices + k));
      putchar('\n');
    }
  }
  for (size_t i = 0; i < m->huge_count; i++)
    printf("huge block %#lx, %s\n", (unsigned long)m->huge[i].at, outside_size(m->huge[i].size));
}

/* ---- a page ---------------------------------------------------------------------------------- */

static const char page_head[] =
  "<!doctype html><html lang=en><meta charset=utf-8><title>freehold map</title>\n"
  "<style>body{font:14px system-ui,sans-serif;margin:1.5rem;max-width:70rem}"
  "canvas{image-rendering:pixelated;width:512px;height:512px;border:1px solid #999}"
  "figure{display:inline-block;margin:0 1rem 1rem 0}figcaption{font-size:12px}"
  "#legend span{display:inline-block;margin-right:1rem}"
  "#legend i{display:inline-block;width:12px;height:12px;margin-right:4px}</style>\n";
static const char page_script[] =
  "const fixed={' ':'#ffffff','.':'#eeeeee','-':'#e69f00','m':'#999999','=':'#f0e442',"
  "'L':'#0072b2','l':'#56b4e9','p':'#009e73'};\n"
  "const names={' ':'not mapped','.':'free','-':'free, not yet given back','m':'descriptors',"
  "'=':'kept by a thread','L':'a large block begins','l':'more of a large block',"
  "'p':'blocks of pages'};\n"
  "const colour=c=>fixed[c]||`hsl(${+c*13} 75% ${38+(9-c)*4}%)`;\n"
  "const name=c=>names[c]??`slab, ${c*10} to ${c*10+10} % live`;\n"
  "const legend=document.getElementById('legend');\n"
  "for(const c of '0369=-.Llpm'){const s=document.createElement('span');"
  "s.innerHTML=`<i style=\"background:${colour(c)}\"></i>${name(c)}`;legend.append(s)}\n"
  "for(const w of windows){const f=document.createElement('figure'),c=document.createElement("
  "'canvas'),t=document.createElement('figcaption');c.width=c.height=128;\n"
  "const g=c.getContext('2d');[...w.slices.padEnd(16384)].forEach((s,i)=>{g.fillStyle=colour(s);"
  "g.fillRect(i%128,i/128|0,1,1)});\n"
  "const title=`window ${w.at}: ${(w.slices.length/16).toFixed(0)} MiB mapped`;\n"
  "t.textContent=title;\n"
  "c.onmousemove=e=>{const i=(e.offsetY/4|0)*128+(e.offsetX/4|0);"
  "t.textContent=`0x${(BigInt(w.at)+BigInt(i*65536)).toString(16)}: ${name(w.slices[i]||' ')}`};\n"
  "c.onmouseleave=()=>t.textContent=title;f.append(c,t);document.body.append(f)}\n";

static void write_quoted(FILE *out, const char *text) {
  for (; *text != '\0'; text++)
    if (*text == '<' || *text == '&') fprintf(out, "&#%d;", *text);
    else fputc(*text, out);
}

static int write_page(const map_t *m, const char *path) {
  FILE *out = outside_create(path, 0666);
  if (out == NULL) return OUTSIDE_CANNOT_READ;
  fputs(page_head, out);
  fputs("<h1>", out);
  write_quoted(out, target_title());
  fprintf(out,
          "</h1><p>Each square is a window of 1 GiB, from its lowest address on line by line; each "
          "point is a slice of 64 KiB.</p><p id=legend></p>\n<script>const windows=[");
  for (size_t i = 0; i < m->window_count; i++)
    fprintf(out, "{at:'%#lx',slices:'%.*s'},\n", (unsigned long)m->windows[i].at,
            (int)m->windows[i].mapped, m->windows[i].slices);
  fprintf(out, "];\n%s</script>\n", page_script);
  if (m->huge_count != 0) fputs("<h2>Huge blocks</h2><ul>\n", out);
  for (size_t i = 0; i < m->huge_count; i++)
    fprintf(out, "<li>%#lx: %s\n", (unsigned long)m->huge[i].at, outside_size(m->huge[i].size));
  return outside_finish(out, path, true);
}

int command_map(int argc, char **argv) {
  static const char help[] =
    "freehold map [--page FILE] TARGET\n"
    "    what is in each slice of 64 KiB of a process's memory, read from outside\n"
    "TARGET is a process's number, its name if no other process has it, or a core file.\n"
    "  --page  a picture, as a page for a browser; it needs no network\n"
    "Example: freehold map --page map.html redis-server\n"
    "Exit codes: 0 done, 1 the target cannot be read or FILE not be written, 2 bad use\n";
  static const struct option options[] = {
    {"page", required_argument, NULL, 'p'}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
  const char *page = NULL;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1; page = optarg)
    if (o == OPTION_WRONG) return OUTSIDE_BAD_USE;
  int code = outside_open(argc, argv);
  map_t m = {0};
  if (code != OUTSIDE_DONE) return code;
  if (!adopt_run(read_map, &m)) return OUTSIDE_CANNOT_READ;
  if (page != NULL) code = write_page(&m, page);
  else write_text(&m);
  free(m.windows);
  free(m.huge);
  return code;
}
