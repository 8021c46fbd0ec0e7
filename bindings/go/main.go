// A program with cgo: what C.malloc gives is freehold's. Go's own heap is not malloc's.
package main

// #cgo LDFLAGS: -lfreehold
// #include <freehold/freehold.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	var threads sync.WaitGroup
	for t := 0; t < 8; t++ {
		threads.Add(1)
		go func() {
			defer threads.Done()
			for i := 0; i < 10000; i++ {
				p := C.malloc(C.size_t(i))
				C.free(p)
			}
		}()
	}
	threads.Wait()
	p := C.malloc(100000)
	stats := C.fh_stats_t{struct_size: C.sizeof_fh_stats_t}
	if !C.fh_owns(p) || !C.fh_stats_get(&stats) || stats.large_live == 0 {
		fmt.Println("C.malloc is not freehold's")
		os.Exit(1)
	}
	C.free(p)
	fmt.Printf("Go on freehold %s: %d bytes live\n", C.GoString(C.fh_version_string()),
		stats.live_bytes)
}
