package wire

import "strings"

// splitTarget returns the parts of a target's name,
// clusters/{cluster}/namespaces/{namespace}/targets/{target}.
func splitTarget(s string) (cluster, namespace, name string, ok bool) {
	s, ok = strings.CutPrefix(s, "clusters/")
	if !ok {
		return "", "", "", false
	}
	cluster, s, ok = segment(s, "/namespaces/")
	if !ok {
		return "", "", "", false
	}
	namespace, s, ok = segment(s, "/targets/")
	if !ok {
		return "", "", "", false
	}
	name, s, ok = segment(s, "")
	return cluster, namespace, name, ok && s == ""
}

// maxSegment bounds a segment of a target's name, and maxTarget the whole.
const (
	maxSegment = 253
	maxTarget  = 3*maxSegment + len("clusters//namespaces//targets/")
)

// segment reads a segment and what has to follow it.
func segment(s, then string) (first, rest string, ok bool) {
	n := 0
	for n < len(s) && inSegment[s[n]] {
		n++
	}
	first = s[:n]
	if n == 0 || n > maxSegment || first == "." || first == ".." || first == "-" {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(s[n:], then)
	return first, rest, ok
}

// inSegment are the characters of a segment.
var inSegment = characters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")

// isOfSegment tells whether a text has only such characters.
func isOfSegment(b []byte) bool {
	for _, c := range b {
		if !inSegment[c] {
			return false
		}
	}
	return true
}

// characters makes a set of them.
func characters(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}
