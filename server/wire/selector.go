package wire

import "bytes"

// maxSelector limits the selectors on the fast path.
const maxSelector = 4096

// isPlainSelector reports whether a selector is valid and of the usual form:
// key=value,key=value. Other forms are valid, too.
func isPlainSelector(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	for more := true; more; {
		var term []byte
		term, s, more = bytes.Cut(s, []byte(","))
		key, value, ok := bytes.Cut(term, []byte("="))
		if !ok || !isLabelKey(key) || !isLabelName(value) {
			return false
		}
	}
	return true
}

// isLabelKey reports whether s is a label's key, with or without a domain.
func isLabelKey(s []byte) bool {
	if domain, name, ok := bytes.Cut(s, []byte("/")); ok {
		return isDomain(domain) && isLabelName(name)
	}
	return isLabelName(s)
}

// Limits of labels.
const (
	maxLabel  = 63
	maxDomain = 253
)

var (
	inLabel     = characters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
	labelEnd    = characters("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
	inDomain    = characters("abcdefghijklmnopqrstuvwxyz0123456789-")
	domainStart = characters("abcdefghijklmnopqrstuvwxyz0123456789")
)

// isLabelName reports whether s is the name of a label, or a non-empty value.
func isLabelName(s []byte) bool { return len(s) <= maxLabel && isWord(s, &inLabel, &labelEnd) }

// isDomain reports whether s is a DNS subdomain.
func isDomain(s []byte) bool {
	if len(s) > maxDomain {
		return false
	}
	for more := true; more; {
		var label []byte
		label, s, more = bytes.Cut(s, []byte("."))
		if !isWord(label, &inDomain, &domainStart) {
			return false
		}
	}
	return true
}

// isWord reports whether s is not empty, has only these characters, and begins and ends
// with one of those.
func isWord(s []byte, in, ends *[256]bool) bool {
	if len(s) == 0 || !ends[s[0]] || !ends[s[len(s)-1]] {
		return false
	}
	for _, c := range s {
		if !in[c] {
			return false
		}
	}
	return true
}
