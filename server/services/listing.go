package services

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// listedAtOnce is how many records are loaded at once for a list: they may be a thousand times as large as their entries in
// it. How many lists load at a time is limited before (admission.ReadInTurn).
const listedAtOnce = 50

// A page ends where its records take pageRoom, in bytes, so that it costs no more than a request of no bytes may, and the
// usual thousand targets are one page. A metric, or a label of its selector, takes as long to be read and to be written as
// JSON as bytesPerEntry more of others, and a byte of a record that is not shown an eighth of one that is.
const pageRoom, bytesPerEntry, unshownPerByte = 1536 << 10, 48, 8

func entriesOfSpec(spec *setpointv1.HorizontalPodAutoscalerSpec) (n int) {
	for _, m := range spec.GetMetrics() {
		n += 1 + labelsOf(m.GetObject()) + labelsOf(m.GetPods()) + labelsOf(m.GetExternal())
	}
	return n
}

func entriesOfStatus(metrics []*setpointv1.MetricStatus) (n int) {
	for _, m := range metrics {
		n += 1 + labelsOf(m.GetObject()) + labelsOf(m.GetPods()) + labelsOf(m.GetExternal())
	}
	return n
}

func labelsOf(m interface {
	GetMetric() *setpointv1.MetricIdentifier
}) int {
	selector := m.GetMetric().GetSelector()
	return len(selector.GetMatchLabels()) + len(selector.GetMatchExpressions())
}

// listRequest is what requests of lists by key have.
type listRequest interface {
	proto.Message
	GetParent() string
	GetPageSize() int32
	GetPageToken() string
}

// list reads a page of the keys of a store that the caller may read, and has add list some of them at a time: it
// returns how many it covered, at least one, and whether the page is full. The result is the next page's token.
func (s *Targets) list(ctx context.Context, method string, of store.Store, req listRequest, add func([]store.Key) (kept int, full bool, err error)) (token string, err error) {
	if err := apierror.OfStructure(req); err != nil {
		return "", err
	}
	filter := decision.ParseParent(req.GetParent())
	scope := access.ScopeOf(ctx, filter)
	list := pagetoken.ListOf(ctx, method, req.GetParent(), scope)
	position, err := s.pages.Position(ctx, list, req.GetPageToken())
	if err != nil {
		return "", err
	}
	after, err := keyAt(position)
	if err != nil {
		return "", err
	}
	keys, next, err := visible(ctx, of, filter, scope, after, cmp.Or(int(req.GetPageSize()), defaultTargetsPage))
	if err != nil {
		return "", apierror.OfStore(ctx, req.GetParent(), err)
	}
	for some := range slices.Chunk(keys, listedAtOnce) {
		kept, full, err := add(some)
		if err != nil {
			return "", err
		}
		if kept < len(some) || full {
			if last := some[kept-1]; last != keys[len(keys)-1] {
				next = last
			}
			break
		}
	}
	if next == (store.Key{}) {
		return "", nil
	}
	return s.pages.Next(ctx, list, positionOf(next))
}

// appendTargets adds the existing targets to a list, with their specs in use if the request wants them:
// only as many as fit into the room, but at least one. It returns how many of the keys it
// covered.
func (s *Targets) appendTargets(ctx context.Context, response *setpointv1.ListTargetsResponse, req *setpointv1.ListTargetsRequest, keys []store.Key, room *int) (kept int, err error) {
	loaded, errs := s.targets.Load(ctx, keys)
	for i, key := range keys {
		target := &setpointv1.Target{Name: key.String()}
		switch {
		case errs != nil && errors.Is(errs[i], store.ErrUnreadable):
			// An unreadable target is listed by name, so that it can be deleted.
			response.Targets = append(response.Targets, target)
			continue
		case errs != nil && errs[i] != nil:
			return 0, apierror.OfStore(ctx, req.GetParent(), errs[i])
		case !loaded[i].Exists():
			continue // deleted since it was listed
		}
		if known, err := record.Decode(loaded[i].Value); err == nil {
			target = conversion.Target(target.GetName(), &known, false)
			if req.GetWithSpecInUse() {
				target.SpecInUse = decision.SpecInUse(&known)
			}
		}
		*room -= proto.Size(target) + len(loaded[i].Value)/unshownPerByte
		*room -= bytesPerEntry * (entriesOfStatus(target.GetStatus().GetCurrentMetrics()) + entriesOfSpec(target.GetSpecInUse().GetSpec()))
		if *room < 0 && i > 0 {
			return i, nil
		}
		response.Targets = append(response.Targets, target)
	}
	return len(keys), nil
}

// probe is how many keys are requested after one that the caller may not read.
const probe = 16

// visible returns up to size keys of a store after a key that the caller may read, and the key to continue
// from; the zero key: there are no more. A page may be short although there are more: a call takes
// a bounded number of steps to skip targets that the caller may not read.
func visible(ctx context.Context, of store.Store, filter store.Filter, scope *policy.Scope, after store.Key, size int) (keys []store.Key, next store.Key, err error) {
	if scope == nil || scope.All() {
		keys, err = of.List(ctx, filter, after, size)
		if len(keys) == size {
			next = keys[size-1]
		}
		return keys, next, err
	}
	for step, limit := 0, size; step < pagetoken.MostReads; step++ {
		found, err := of.List(ctx, filter, after, limit)
		if err != nil {
			return nil, store.Key{}, err
		}
		foreign := false
		for _, key := range found {
			after = key
			if foreign = !scope.Contains(key.Cluster, key.Namespace); foreign {
				break
			}
			keys = append(keys, key)
		}
		if len(keys) == size {
			return keys, after, nil
		}
		if !foreign {
			if len(found) < limit {
				return keys, store.Key{}, nil
			}
			limit = size - len(keys)
			continue
		}
		cluster, namespace, more := scope.After(after.Cluster, after.Namespace)
		if !more {
			return keys, store.Key{}, nil
		}
		after = store.Key{Cluster: cluster, Namespace: namespace}
		limit = min(size-len(keys), probe)
	}
	return keys, after, nil
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
		return store.Key{}, pagetoken.Bad()
	}
	return store.Key{Cluster: parts[0], Namespace: parts[1], Target: parts[2]}, nil
}
