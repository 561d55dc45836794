package testpages

import "testing"

func TestCompare(t *testing.T) {
	t.Parallel()
	const page = "A day takes\n  106 kB (`x`). A table: | 9,564 steps |, 1.06 GB and 10.6 GB, and 106 kB again."
	for name, tt := range map[string]struct {
		text            string
		measured, share float64
		told            bool
	}{
		"over the end of a line":   {"takes # kB", 105.9, 0.01, true},
		"with thousands":           {"| # steps", 9564, 0, true},
		"with a fraction":          {"# GB and", 1.0583, 0.01, true},
		"too small":                {"takes # kB", 120, 0.1, false},
		"too large":                {"takes # kB", 90, 0.1, false},
		"one of two":               {"# GB", 1.06, 0.01, false},
		"all":                      {"# kB", 106, 0, true},
		"not told":                 {"takes # MB", 106, 1, false},
		"signs are no expressions": {"(`x`). A table: | # steps", 9564, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := compare(page, tt.text, tt.measured, tt.share); (err == nil) != tt.told {
				t.Error(err)
			}
		})
	}
}
