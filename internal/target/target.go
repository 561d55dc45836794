// Package target parses and formats the names of targets,
// clusters/{cluster}/namespaces/{namespace}/targets/{target}.
package target

import (
	"fmt"
	"strings"
)

// MaxSegment limits a segment of a name, and MaxLength the whole, in bytes.
const (
	MaxSegment = 253
	MaxLength  = 3*MaxSegment + len("clusters//namespaces//targets/")
)

// Name is a parsed name of a target.
type Name struct{ Cluster, Namespace, Target string }

// String returns the name in the API's format.
func (n Name) String() string {
	return "clusters/" + n.Cluster + "/namespaces/" + n.Namespace + "/targets/" + n.Target
}

// Parse parses a name by the rule of the .proto files. It does not allocate.
func Parse(s string) (n Name, ok bool) {
	s, ok = strings.CutPrefix(s, "clusters/")
	if !ok {
		return Name{}, false
	}
	if n.Cluster, s, ok = segment(s, "/namespaces/"); !ok {
		return Name{}, false
	}
	if n.Namespace, s, ok = segment(s, "/targets/"); !ok || !IsSegment(s) {
		return Name{}, false
	}
	n.Target = s
	return n, true
}

// CheckFleet returns what is wrong with the name of a fleet, which is a target's; nil: nothing.
func CheckFleet(name string) error {
	if _, ok := Parse(name); ok {
		return nil
	}
	return fmt.Errorf("must be the whole name of a fleet, clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, not %.64q", name)
}

// ParseParent parses the valid parent of a list,
// clusters/{cluster}/namespaces/{namespace}. "-" stands for all, and is returned as "".
func ParseParent(s string) (cluster, namespace string) {
	parts := strings.Split(s, "/")
	if len(parts) != 4 {
		return "", ""
	}
	all := func(segment string) string {
		if segment == "-" {
			return ""
		}
		return segment
	}
	return all(parts[1]), all(parts[3])
}

// segment parses a segment and the separator that must follow it.
func segment(s, then string) (first, rest string, ok bool) {
	n := strings.IndexByte(s, '/')
	if n < 0 || !IsSegment(s[:n]) {
		return "", "", false
	}
	rest, ok = strings.CutPrefix(s[n:], then)
	return s[:n], rest, ok
}

// IsSegment reports whether a text is a valid segment: 1 to 253 characters of
// [A-Za-z0-9._-], and not ".", ".." or "-".
func IsSegment(s string) bool {
	return s != "" && len(s) <= MaxSegment && s != "." && s != ".." && s != "-" && IsOfSegment(s)
}

// ShadowSuffix ends the names of the targets of agents' shadows, and no other names.
const ShadowSuffix = ".-shadow"

// IsOfSegment reports whether a text has only characters of segments.
func IsOfSegment[T string | []byte](s T) bool {
	for i := range len(s) {
		if !inSegment[s[i]] {
			return false
		}
	}
	return true
}

// inSegment is the set of characters of segments.
var inSegment = func() (set [256]bool) {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	for i := range len(characters) {
		set[characters[i]] = true
	}
	return set
}()

// Whole returns the name of a target that a person may have written as CLUSTER/NAMESPACE/TARGET; any other text as it is.
func Whole(text string) string {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "clusters" {
		return text
	}
	name := Name{Cluster: parts[0], Namespace: parts[1], Target: parts[2]}.String()
	if _, ok := Parse(name); !ok {
		return text
	}
	return name
}
