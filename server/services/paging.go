package services

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/store"
)

// pageTokens creates and checks the page tokens of lists.
type pageTokens struct {
	// secrets has the key that instances share; nil: the store is not shared.
	secrets store.Secrets
	own     pagetoken.Key
}

func newPageTokens(engine store.Store) *pageTokens {
	secrets, _ := engine.(store.Secrets)
	return &pageTokens{secrets: secrets, own: pagetoken.NewKey()}
}

// key returns the key of all instances. It reads the store each time, one more round trip per list:
// an instance that cached the key would differ from the others after Redis lost it.
func (p *pageTokens) key(ctx context.Context) (pagetoken.Key, error) {
	if p.secrets == nil {
		return p.own, nil
	}
	secret, err := p.secrets.Secret(ctx, "page-tokens", p.own[:])
	return sha256.Sum256(secret), err
}

// listOf returns the list that a call requests, limited to what its caller may read; scope nil:
// all.
func listOf(ctx context.Context, method, parent string, scope *policy.Scope) pagetoken.List {
	list := pagetoken.List{Method: method, Parent: parent, Caller: access.CallerOf(ctx).Name()}
	if scope != nil {
		list.Scope = scope.Fingerprint()
	}
	return list
}

// next returns the token of a position; "" for "", the end.
func (p *pageTokens) next(ctx context.Context, list pagetoken.List, position string) (string, error) {
	if position == "" {
		return "", nil
	}
	key, err := p.key(ctx)
	if err != nil {
		return "", apierror.OfStore(ctx, list.Parent, err)
	}
	return pagetoken.Seal(key, list, position), nil
}

// position returns the position of a token; "" for "", the first page.
func (p *pageTokens) position(ctx context.Context, list pagetoken.List, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	key, err := p.key(ctx)
	if err != nil {
		return "", apierror.OfStore(ctx, list.Parent, err)
	}
	position, ok := pagetoken.Open(key, list, token)
	if !ok || position == "" {
		return "", badPageToken()
	}
	return position, nil
}

func badPageToken() error {
	return apierror.InvalidField("pageToken", "Invalid value: must be the nextPageToken of the page before, of the same list and caller, "+
		"who must still have the same grants; else begin with the first page")
}

// positionOf formats a key as a position, and keyAt parses it.
func positionOf(key store.Key) string {
	return key.Cluster + "/" + key.Namespace + "/" + key.Target
}

func keyAt(position string) (store.Key, error) {
	if position == "" {
		return store.Key{}, nil
	}
	parts := strings.Split(position, "/")
	if len(parts) != 3 {
		return store.Key{}, badPageToken()
	}
	return store.Key{Cluster: parts[0], Namespace: parts[1], Target: parts[2]}, nil
}

// decisionsPage reads a page of the decisions of a target from a position.
func (s *Targets) decisionsPage(ctx context.Context, target, position string, size int) (values [][]byte, next string, err error) {
	values, next, err = s.log.ReadLog(ctx, decision.ParseTarget(target), position, size)
	if errors.Is(err, store.ErrInvalidPosition) {
		return nil, "", badPageToken()
	}
	if err != nil {
		return nil, "", apierror.OfStore(ctx, target, err)
	}
	return values, next, nil
}

// Methods of lists, to which their tokens are bound.
const (
	listTargetsMethod   = setpointv1.TargetService_ListTargets_FullMethodName
	listDecisionsMethod = setpointv1.TargetService_ListDecisions_FullMethodName
	getRecordingMethod  = setpointv1.TargetService_GetRecording_FullMethodName
)
