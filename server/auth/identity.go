package auth

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Method is what an identity was proved by.
type Method string

// The methods. Each begins the names that it vouches for, but for MethodNone.
const (
	MethodNone        Method = "none"
	MethodCertificate Method = "certificate"
	MethodToken       Method = "token"
	MethodOIDC        Method = "oidc"
)

// AnonymousName is the name of callers without credentials.
const AnonymousName = "anonymous"

// maxName bounds names of identities and groups, in bytes.
const maxName = 1024

// Identity is an authenticated caller. Identities are shared and must not be changed. The zero
// value has no rights.
type Identity struct {
	// Name is unique, begins with the method and holds no control characters.
	Name string
	// Method is how it was authenticated.
	Method Method
	// Groups are what the issuer says the caller belongs to.
	Groups Groups
	// Expires is when the credentials do; zero: never. They may end earlier, so that a
	// long stream should authenticate again now and then.
	Expires time.Time
}

// Anonymous is the identity of callers without credentials.
var Anonymous = &Identity{Name: AnonymousName, Method: MethodNone}

// Groups is a set of names of groups, in one comparable value. The zero value is the
// empty set.
type Groups struct{ lines string }

// NewGroups returns the set of names. No name may contain a line break.
func NewGroups(names ...string) Groups {
	names = slices.Clone(names)
	slices.Sort(names)
	return Groups{lines: strings.Join(slices.Compact(names), "\n")}
}

// Names returns the names in order.
func (g Groups) Names() []string {
	if g.lines == "" {
		return nil
	}
	return strings.Split(g.lines, "\n")
}

// validName reports whether a name that comes with credentials can be one: text that
// a log line, a header and a policy file can hold.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
