// Package spelling guesses which known word a misspelt one means, so that errors about
// unknown names can end in "did you mean …?".
//
//	if name, ok := spelling.Closest("traget", []string{"type", "target"}); ok {
//		fmt.Printf("did you mean %q?\n", name) // did you mean "target"?
//	}
package spelling

import (
	"slices"
	"strings"
)

// maxEdits limits how far off a guess may be, however long the word is. Beyond it
// guesses amuse rather than help.
const maxEdits = 3

// ofSchedules are keys of KEDA's trigger cron, with those of schedules that mean the same: words that are not alike.
var ofSchedules = map[string]string{"start": "cron", "end": "endCron", "desiredReplicas": "minReplicas"}

// Closest returns the candidate that takes the fewest edits to get from word,
// letter case aside; the earlier of two that take as many. An edit inserts,
// drops or replaces a byte or swaps two neighbours. It returns false when every
// candidate is too far off: more than a third of the word, or more than 3 edits
// (one edit is always allowed). Among the keys of schedules it also knows KEDA's words for them. Words much longer than every candidate cost
// nothing, so word may come from an untrusted source.
func Closest(word string, candidates []string) (string, bool) {
	limit := min(max(len(word)/3, 1), maxEdits)
	closest, fewest := "", limit+1
	for _, candidate := range candidates {
		if len(candidate)-len(word) > limit || len(word)-len(candidate) > limit {
			continue
		}
		if n := edits(strings.ToLower(word), strings.ToLower(candidate)); n < fewest {
			closest, fewest = candidate, n
		}
	}
	if means, known := ofSchedules[word]; fewest > limit && known && slices.Contains(candidates, "endCron") {
		return means, true
	}
	return closest, fewest <= limit
}

// edits is the optimal string alignment distance of a and b: Levenshtein's with swaps
// of neighbours, none of which is edited again. It takes O(len(a) * len(b)).
func edits(a, b string) int {
	// beforeLast, last and row are the distances of a[:i-2], a[:i-1] and a[:i] to every
	// prefix of b.
	beforeLast, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		beforeLast, last, row = last, row, beforeLast
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
