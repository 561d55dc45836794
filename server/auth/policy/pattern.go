package policy

import (
	"slices"
	"strings"
)

// pattern is text in which * matches any characters, or none.
type pattern struct {
	text string
	// head and tail are the parts before the first * and after the last, and middle the
	// parts in between. Without a *, head is the whole pattern.
	head, tail string
	middle     []string
	exact      bool
}

func compile(text string) pattern {
	parts := strings.Split(text, "*")
	if len(parts) == 1 {
		return pattern{text: text, head: text, exact: true}
	}
	p := pattern{text: text, head: parts[0], tail: parts[len(parts)-1]}
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			p.middle = append(p.middle, part)
		}
	}
	return p
}

// all reports whether the pattern matches everything.
func (p *pattern) all() bool {
	return !p.exact && p.head == "" && p.tail == "" && len(p.middle) == 0
}

func (p *pattern) matches(text string) bool {
	if p.exact {
		return text == p.head
	}
	if len(text) < len(p.head)+len(p.tail) || !strings.HasPrefix(text, p.head) || !strings.HasSuffix(text, p.tail) {
		return false
	}
	rest := text[len(p.head) : len(text)-len(p.tail)]
	for _, part := range p.middle {
		// The first match is the best: it leaves most to the rest.
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// fewNames is how many names are compared one by one faster than by a hash.
const fewNames = 8

// names is a set of patterns. The zero value matches nothing.
type names struct {
	any      bool
	few      []string
	many     map[string]struct{}
	patterns []pattern
}

func newNames(texts []string) names {
	var n names
	for _, text := range texts {
		switch p := compile(text); {
		case p.all():
			n.any = true
		case p.exact:
			n.few = append(n.few, text)
		default:
			n.patterns = append(n.patterns, p)
		}
	}
	if len(n.few) > fewNames {
		n.many = make(map[string]struct{}, len(n.few))
		for _, text := range n.few {
			n.many[text] = struct{}{}
		}
		n.few = nil
	}
	return n
}

// allNames matches everything.
var allNames = names{any: true}

func (n *names) match(name string) bool {
	if n.any || slices.Contains(n.few, name) {
		return true
	}
	if _, there := n.many[name]; there {
		return true
	}
	for i := range n.patterns {
		if n.patterns[i].matches(name) {
			return true
		}
	}
	return false
}

// matchCallers is match for names of identities: no wildcard matches Anonymous.
func (n *names) matchCallers(name string, anonymous bool) bool {
	if !anonymous {
		return n.match(name)
	}
	literal := names{few: n.few, many: n.many}
	return literal.match(name)
}
