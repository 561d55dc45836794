package pagetoken

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/store"
)

// MostReads limits the reads of the store for one page, which may be short although there are more: each but the first
// skips what the caller may not read.
const MostReads = 32

// Tokens creates and checks the page tokens of lists.
type Tokens struct {
	// secrets has the key that instances share; nil: the store is not shared.
	secrets store.Secrets
	own     Key
	// Patience is how long to wait for the key where nothing depends on it.
	Patience time.Duration
}

// New returns the tokens of a store.
func New(engine store.Store) *Tokens {
	secrets, _ := engine.(store.Secrets)
	return &Tokens{secrets: secrets, own: NewKey(), Patience: store.Patience(engine, time.Second)}
}

// Key returns the key of all instances. It reads the store each time, one more round trip per list:
// an instance that cached the key would differ from the others after Redis lost it.
func (p *Tokens) Key(ctx context.Context) (Key, error) {
	if p.secrets == nil {
		return p.own, nil
	}
	proposal := NewKey() // never proposed before: who deletes a key wants another
	secret, err := p.secrets.Secret(ctx, "page-tokens", proposal[:])
	return sha256.Sum256(secret), err
}

// ListOf returns the list that a call requests, limited to what its caller may read; scope nil:
// all.
func ListOf(ctx context.Context, method, parent string, scope *policy.Scope) List {
	list := List{Method: method, Parent: parent, Caller: access.CallerOf(ctx).Name()}
	if scope != nil {
		list.Scope = scope.Fingerprint()
	}
	return list
}

// Next returns the token of a position; "" for "", the end.
func (p *Tokens) Next(ctx context.Context, list List, position string) (string, error) {
	if position == "" {
		return "", nil
	}
	key, err := p.Key(ctx)
	if err != nil {
		return "", apierror.OfStore(ctx, list.Parent, err)
	}
	return Seal(key, list, position), nil
}

// Position returns the position of a token; "" for "", the first page.
func (p *Tokens) Position(ctx context.Context, list List, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	key, err := p.Key(ctx)
	if err != nil {
		return "", apierror.OfStore(ctx, list.Parent, err)
	}
	position, ok := Open(key, list, token)
	if !ok || position == "" {
		return "", Bad()
	}
	return position, nil
}

// Bad is the error of a token that is not of the list.
func Bad() error {
	return apierror.InvalidField("pageToken", "Invalid value: must be the nextPageToken of the page before, of the same list and caller, "+
		"who must still have the same grants; else begin with the first page")
}
