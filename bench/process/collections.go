package process

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// collection matches the runtime's line for a garbage collection: its processor time is
// stop-the-world + assists/dedicated and fractional workers/idle workers + stop-the-world.
var collection = regexp.MustCompile(`^gc \d+ @[\d.]+s .* ([\d.]+)\+([\d.]+)/([\d.]+)/([\d.]+)\+([\d.]+) ms cpu, `)

// Collecting returns the processor time that the service has spent on garbage collection
// so far, without idle processors, and the number of collections.
func (s *Service) Collecting() (took time.Duration, times int) {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return 0, 0
	}
	return collecting(string(text))
}

func collecting(log string) (took time.Duration, times int) {
	for line := range strings.Lines(log) {
		parts := collection.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		times++
		const idle = 4
		for i, part := range parts {
			if i == 0 || i == idle {
				continue
			}
			millis, _ := strconv.ParseFloat(part, 64)
			took += time.Duration(millis * float64(time.Millisecond))
		}
	}
	return took, times
}
