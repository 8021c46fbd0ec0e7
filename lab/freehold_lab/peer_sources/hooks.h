/* hooks.h - glibc's hooks of malloc, which 2.34 removed: Hoard's wrapper still sets them, and
 * nobody reads them. Its functions take the place of malloc by their names. */
#pragma once
#include <stddef.h>

static void *(*__malloc_hook)(size_t, const void *)__attribute__((unused));
static void *(*__realloc_hook)(void *, size_t, const void *)__attribute__((unused));
static void *(*__memalign_hook)(size_t, size_t, const void *)__attribute__((unused));
static void (*__free_hook)(void *, const void *) __attribute__((unused));
