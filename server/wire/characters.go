package wire

// characters returns the set of the text's characters.
func characters(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}
