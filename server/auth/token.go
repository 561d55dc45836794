package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/document"
)

// TokenPrefix begins generated tokens, so that secret scanners can find them.
const TokenPrefix = "sp_"

// tokenDigits is how many base-62 digits represent 32 bytes.
const tokenDigits = 43

// TokenEntry is an entry of the file of tokens.
type TokenEntry struct {
	// Identity is the token's owner: ci for the identity token:ci. Several tokens may
	// have the same owner, so that one can replace the other.
	Identity string
	// SHA256 is the token's digest. A token has 256 random bits, so that guessing it
	// from its digest is hopeless and a slow or salted hash would add nothing.
	SHA256 [sha256.Size]byte
	// NotBefore and Expires limit when the token is valid. Zero: no limit.
	NotBefore, Expires time.Time
	// Description is for people.
	Description string
}

// tokenIdentity is the syntax of a name after "token:". It begins and ends with a
// letter or digit.
var tokenIdentity = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@/:-]{0,251}[A-Za-z0-9])?$`)

const tokenIdentityRule = `must be 1 to 253 characters of [A-Za-z0-9._@/:-], a letter or digit first and last`

// GenerateToken returns a new random token of identity, and its entry for the file,
// from which the token can't be recovered.
func GenerateToken(identity string) (string, TokenEntry, error) {
	if !tokenIdentity.MatchString(identity) {
		return "", TokenEntry{}, fmt.Errorf("identity %q: %s", identity, tokenIdentityRule)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // It never fails.
	digits := new(big.Int).SetBytes(secret[:]).Text(62)
	token := TokenPrefix + strings.Repeat("0", tokenDigits-len(digits)) + digits
	return token, TokenEntry{Identity: identity, SHA256: sha256.Sum256([]byte(token))}, nil
}

// YAML is the entry as an element of the file's list, indented as in the files that the Helm
// chart and deploy/secrets.sh make, so that it can be appended to them.
func (e TokenEntry) YAML() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- identity: %s\n  sha256: %q\n", strconv.Quote(e.Identity), hex.EncodeToString(e.SHA256[:]))
	if !e.NotBefore.IsZero() {
		fmt.Fprintf(&b, "  notBefore: %s\n", e.NotBefore.UTC().Format(time.RFC3339))
	}
	if !e.Expires.IsZero() {
		fmt.Fprintf(&b, "  expires: %s\n", e.Expires.UTC().Format(time.RFC3339))
	}
	if e.Description != "" {
		fmt.Fprintf(&b, "  description: %s\n", strconv.Quote(e.Description))
	}
	return b.String()
}

// tokens are the tokens of a file, by digest. Looking up a digest takes longer the more
// of it agrees with an entry's, but callers can't use that: they can't choose digests,
// and a token whose digest agrees in its first bytes does not help to find one whose
// whole digest agrees.
type tokens map[[sha256.Size]byte]*tokenHolder

type tokenHolder struct {
	identity  *Identity
	notBefore time.Time
	expires   time.Time
}

// authenticate returns the owner of the token with the digest; nil, nil if it is unknown.
func (t tokens) authenticate(digest [sha256.Size]byte, now time.Time) (*Identity, *Error) {
	holder, known := t[digest]
	switch {
	case !known:
		return nil, nil
	case now.Before(holder.notBefore):
		return nil, refuse(ReasonNotYetValid, "the bearer token is not valid before "+holder.notBefore.Format(time.RFC3339), errHolder(holder))
	case !holder.expires.IsZero() && !now.Before(holder.expires):
		return nil, refuse(ReasonExpired, "the bearer token expired at "+holder.expires.Format(time.RFC3339), errHolder(holder))
	}
	return holder.identity, nil
}

// withLineBreak reports whether the file has the digest of the token and a line break,
// as echo would add it.
func (t tokens) withLineBreak(token string) bool {
	_, known := t[sha256.Sum256([]byte(token+"\n"))]
	return known
}

// expire returns when the last token of each identity expires whose tokens all do.
func (t tokens) expire() map[string]time.Time {
	ends, endless := make(map[string]time.Time), make(map[string]bool)
	for _, h := range t {
		name := h.identity.Name
		if endless[name] = endless[name] || h.expires.IsZero(); endless[name] {
			delete(ends, name)
		} else if h.expires.After(ends[name]) {
			ends[name] = h.expires
		}
	}
	return ends
}

func errHolder(h *tokenHolder) error { return errors.New("token of " + h.identity.Name) }

// plaintext is the problem of a file that seems to contain a token itself.
const plaintext = "tokens are not written in the clear: put the token's SHA-256 in sha256 (printf %s \"$TOKEN\" | sha256sum), and replace a token that was in a file"

// parseTokens reads a file of tokens.
func parseTokens(name string, data []byte) (tokens, error) {
	t := make(tokens)
	err := document.Read(name, data, func(root document.Value) {
		root.Map(document.Required("tokens", func(list document.Value) {
			paths := make(map[[sha256.Size]byte]string)
			list.ListOrNone(func(_ int, v document.Value) {
				entry, right := readTokenEntry(v)
				first, twice := paths[entry.SHA256]
				switch {
				case !right:
				case twice:
					v.Refuse("has the same sha256 as %s", first)
				default:
					paths[entry.SHA256] = v.Path()
					t[entry.SHA256] = entry.holder()
				}
			})
		}))
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// readTokenEntry returns false for an invalid entry.
func readTokenEntry(v document.Value) (TokenEntry, bool) {
	var entry TokenEntry
	right := true
	and := func(ok bool) { right = right && ok }
	never := func(key string) document.Field { return document.Never(key, plaintext) }
	and(v.Map(
		document.Required("identity", func(v document.Value) {
			text, ok := v.Text()
			if ok && !tokenIdentity.MatchString(text) {
				v.Refuse("%s", tokenIdentityRule)
				ok = false
			}
			entry.Identity = text
			and(ok)
		}),
		document.Required("sha256", func(v document.Value) {
			sum, ok := readSHA256(v)
			entry.SHA256 = sum
			and(ok)
		}),
		document.Optional("notBefore", func(v document.Value) {
			t, ok := v.Time()
			entry.NotBefore = t
			and(ok)
		}),
		document.Optional("expires", func(v document.Value) {
			t, ok := v.Time()
			entry.Expires = t
			and(ok)
		}),
		document.Optional("description", func(v document.Value) {
			text, ok := v.TextOrEmpty()
			entry.Description = text
			and(ok)
		}),
		never("token"), never("secret"), never("password"), never("plaintext"), never("value"),
	))
	if !entry.Expires.IsZero() && !entry.NotBefore.Before(entry.Expires) {
		v.Refuse("expires must be after notBefore")
		right = false
	}
	return entry, right
}

func readSHA256(v document.Value) ([sha256.Size]byte, bool) {
	text, ok := v.Raw()
	if !ok {
		return [sha256.Size]byte{}, false
	}
	sum, err := hex.DecodeString(text)
	switch {
	case strings.HasPrefix(text, TokenPrefix):
		v.Refuse("%s", plaintext)
	case err != nil || len(sum) != sha256.Size:
		v.Refuse("must be 64 hexadecimal digits, the token's SHA-256; %s", plaintext)
	case [sha256.Size]byte(sum) == sha256.Sum256(nil):
		v.Refuse("is the SHA-256 of an empty text: was the variable set?")
	default:
		return [sha256.Size]byte(sum), true
	}
	return [sha256.Size]byte{}, false
}

func (e TokenEntry) holder() *tokenHolder {
	identity := &Identity{Name: string(MethodToken) + ":" + e.Identity, Method: MethodToken, Expires: e.Expires}
	return &tokenHolder{identity: identity, notBefore: e.NotBefore, expires: e.Expires}
}
