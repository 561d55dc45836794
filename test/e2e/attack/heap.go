//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// mostHolders bounds the reported stacks, framesTold the functions of each.
	mostHolders, framesTold = 6, 6
	// modulePath is left out of the names of functions.
	modulePath = "github.com/setpoint-dev/setpoint/"
)

// heapAlloc returns how many bytes of the heap are in use, which stands at the end of a heap
// profile in text form.
func heapAlloc(profile string) (int64, error) {
	_, rest, _ := strings.Cut(profile, "# HeapAlloc = ")
	return strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
}

// holders returns the stacks with the most live memory in a heap profile in text form
// (/debug/pprof/heap?debug=1), largest first, each with its innermost functions. The profile
// samples small objects; their totals are estimated as in pprof.
func holders(profile string) []string {
	type holder struct {
		bytes  float64
		frames []string
	}
	var all []holder
	rate := 0.
	for line := range strings.Lines(profile) {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, "heap profile: "); is {
			_, text, _ = strings.Cut(text, "@ heap/")
			twice, _ := strconv.ParseFloat(text, 64)
			rate = twice / 2
			continue
		}
		var objects, bytes float64
		if n, _ := fmt.Sscanf(line, "%f: %f [", &objects, &bytes); n == 2 && strings.Contains(line, " [") {
			if objects > 0 && rate > 0 {
				bytes /= 1 - math.Exp(-bytes/objects/rate)
			}
			all = append(all, holder{bytes: bytes})
			continue
		}
		// A frame: "#\t0xADDRESS\tFUNCTION+0xOFFSET\tFILE:LINE", aligned by more tabs.
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
		if len(all) == 0 || len(fields) < 4 || fields[0] != "#" {
			continue
		}
		h := &all[len(all)-1]
		if len(h.frames) < framesTold {
			function, _, _ := strings.Cut(strings.TrimPrefix(fields[2], modulePath), "+0x")
			_, number, _ := strings.Cut(path.Base(fields[3]), ":")
			h.frames = append(h.frames, function+":"+number)
		}
	}
	slices.SortFunc(all, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	var told []string
	for _, h := range all[:min(len(all), mostHolders)] {
		if h.bytes > 0 {
			told = append(told, fmt.Sprintf("%.1f MiB by %s", h.bytes/(1<<20), strings.Join(h.frames, " < ")))
		}
	}
	return told
}
