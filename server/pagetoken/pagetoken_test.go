package pagetoken_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
)

var list = pagetoken.List{Method: "/s/List", Parent: "clusters/-/namespaces/-", Caller: "token:a", Scope: "x"}

func TestTokensLeadBack(t *testing.T) {
	t.Parallel()
	key := pagetoken.NewKey()
	for _, position := range []string{"", "demo/shop/web", strings.Repeat("x", pagetoken.MaxPosition)} {
		token := pagetoken.Seal(key, list, position)
		if got, ok := pagetoken.Open(key, list, token); !ok || got != position {
			t.Errorf("%q leads to %q, %v", position, got, ok)
		}
		if again := pagetoken.Seal(key, list, position); again == token {
			t.Error("the same position has the same token twice: they can be compared")
		}
	}
}

// A sealer's tokens are as those of Seal, each with a nonce of its own, also after those that
// have the same random bits.
func TestSealersTokens(t *testing.T) {
	t.Parallel()
	key := pagetoken.NewKey()
	sealer, seen := pagetoken.NewSealer(key, list), map[string]bool{}
	for _, position := range []string{"", strings.Repeat("x", pagetoken.MaxPosition+1), "demo/shop/web", "demo/shop/web"} {
		token := string(sealer.Append([]byte("to"), position))
		want := position[:min(len(position), pagetoken.MaxPosition)]
		if got, ok := pagetoken.Open(key, list, strings.TrimPrefix(token, "to")); !ok || got != want {
			t.Errorf("%q leads to %q, %v", position, got, ok)
		}
		if seen[token] {
			t.Error("two tokens are equal")
		}
		seen[token] = true
	}
}

func TestTokensCountOnlyWhereTheyWereGivenOut(t *testing.T) {
	t.Parallel()
	key := pagetoken.NewKey()
	token := pagetoken.Seal(key, list, "demo/shop/web")
	for name, change := range map[string]func(*pagetoken.List){
		"method":        func(l *pagetoken.List) { l.Method = "/s/Other" },
		"parent":        func(l *pagetoken.List) { l.Parent = "clusters/demo/namespaces/-" },
		"caller":        func(l *pagetoken.List) { l.Caller = "token:b" },
		"scope":         func(l *pagetoken.List) { l.Scope = "y" },
		"parts shifted": func(l *pagetoken.List) { l.Method, l.Parent = l.Method+"c", l.Parent[1:] },
	} {
		other := list
		change(&other)
		if _, ok := pagetoken.Open(key, other, token); ok {
			t.Errorf("it counts for another %s", name)
		}
	}
	if _, ok := pagetoken.Open(pagetoken.NewKey(), list, token); ok {
		t.Error("it counts with another key")
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	key := pagetoken.NewKey()
	token := pagetoken.Seal(key, list, "demo/shop/web")
	raw, err := base64.RawURLEncoding.DecodeString(token)
	fatal.If(t, err)
	for i := range raw {
		raw[i] ^= 1
		if _, ok := pagetoken.Open(key, list, base64.RawURLEncoding.EncodeToString(raw)); ok {
			t.Errorf("byte %d may be changed", i)
		}
		raw[i] ^= 1
	}
	for n := range raw {
		if _, ok := pagetoken.Open(key, list, base64.RawURLEncoding.EncodeToString(raw[:n])); ok {
			t.Errorf("its first %d bytes count", n)
		}
	}
	for _, text := range []string{"", "x", "=", token + "A", token + "=", "ZGVtby9zaG9wL3dlYg"} {
		if _, ok := pagetoken.Open(key, list, text); ok {
			t.Errorf("%q counts", text)
		}
	}
}

func TestTokensSayNothing(t *testing.T) {
	t.Parallel()
	key := pagetoken.NewKey()
	short, long := pagetoken.Seal(key, list, "a/b/c"), pagetoken.Seal(key, list, strings.Repeat("secret", 42))
	if len(short) != len(long) {
		t.Errorf("%d and %d characters: the length tells of names", len(short), len(long))
	}
	raw, err := base64.RawURLEncoding.DecodeString(long)
	if err != nil || strings.Contains(string(raw), "secret") {
		t.Errorf("%q, %v", raw, err)
	}
	if longest := pagetoken.Seal(key, list, strings.Repeat("x", 3*253+2)); len(longest) > 2048 {
		t.Errorf("%d characters, more than the contract takes", len(longest))
	}
}
