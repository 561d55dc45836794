package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	defaultOverridesPage = 100
	// clustersAtOnce is how many clusters' overrides are loaded at once for a list.
	clustersAtOnce = 8
)

// Service creates, lists and deletes
type Service struct {
	setpointv1.UnimplementedOverrideServiceServer
	overrides *Overrides
	pages     *pagetoken.Tokens
}

// NewService returns the service.
func NewService(all *Overrides, engine store.Store) *Service {
	return &Service{overrides: all, pages: pagetoken.New(engine)}
}

// CreateOverride creates an override.
func (s *Service) CreateOverride(ctx context.Context, req *setpointv1.CreateOverrideRequest) (*setpointv1.CreateOverrideResponse, error) {
	now := s.overrides.Now()
	if err := apierror.Invalid(append(validation.Structure(req), overrideViolations(req, now)...)); err != nil {
		return nil, err
	}
	place, _ := target.ParsePlace(req.GetParent())
	created, _, err := s.overrides.Create(ctx, place, req.GetOverrideId(), req.GetOverride(), access.CallerOf(ctx).Name(), now)
	if err != nil {
		return nil, ofOverride(ctx, place.Override(req.GetOverrideId()), err)
	}
	return &setpointv1.CreateOverrideResponse{Override: created}, nil
}

// DeleteOverride deletes an override.
func (s *Service) DeleteOverride(ctx context.Context, req *setpointv1.DeleteOverrideRequest) (*setpointv1.DeleteOverrideResponse, error) {
	violations := validation.Structure(req)
	place, id, ok := target.ParseOverride(req.GetName())
	if !ok {
		violations = append(violations, validation.Violation{Field: "name", Description: fmt.Sprintf("Invalid value: %q: must be the name of an override, as ListOverrides has it: "+placeForm+", and /overrides/{override}", apierror.Clip(req.GetName()))})
	}
	if err := apierror.Invalid(violations); err != nil {
		return nil, err
	}
	if _, err := s.overrides.Delete(ctx, place, id, access.CallerOf(ctx).Name()); err != nil {
		return nil, ofOverride(ctx, req.GetName(), err)
	}
	return &setpointv1.DeleteOverrideResponse{}, nil
}

// ofOverride maps an error about an override.
func ofOverride(ctx context.Context, name string, err error) error {
	var full *FullError
	var list *UnreadableError
	switch {
	case errors.Is(err, ErrNotFound):
		return apierror.New(codes.NotFound, setpointv1.ErrorReason_ERROR_REASON_OVERRIDE_NOT_FOUND,
			"there is no override "+name+": it was never created, was deleted, or has expired", "override", name)
	case errors.Is(err, ErrExists):
		return apierror.New(codes.AlreadyExists, setpointv1.ErrorReason_ERROR_REASON_OVERRIDE_EXISTS,
			"there is another override "+name+": an override is not changed; delete it first, or choose another overrideId", "override", name)
	case errors.Is(err, ErrContended):
		return apierror.New(codes.Aborted, setpointv1.ErrorReason_ERROR_REASON_TARGET_CONTENDED,
			"the overrides of the cluster were "+err.Error()+"; try again", "override", name)
	case errors.As(err, &full):
		return apierror.OverLimit(full.Limit, full.Most, full.Error())
	case errors.As(err, &list):
		return list.answer()
	}
	return apierror.OfStore(ctx, name, err)
}

// answer is the error for callers.
func (e *UnreadableError) answer() error {
	return apierror.New(codes.Internal, setpointv1.ErrorReason_ERROR_REASON_HISTORY_UNREADABLE, fmt.Sprintf(
		"the stored overrides of cluster %q can't be read: a newer version wrote them, or they are damaged; upgrade this instance, or have the cluster's list deleted from the store (docs/operate/redis.md), and create them again", e.Cluster),
		"cluster", e.Cluster)
}

// placeForm is the form of what can be overridden.
const placeForm = "clusters/{cluster}, clusters/{cluster}/namespaces/{namespace} or clusters/{cluster}/namespaces/{namespace}/targets/{target}"

func placeViolation(field, name string) validation.Violation {
	return validation.Violation{Field: field, Description: fmt.Sprintf("Invalid value: %q: must be "+placeForm, apierror.Clip(name))}
}

// overrideViolations returns what the rules beside the fields do not say.
func overrideViolations(req *setpointv1.CreateOverrideRequest, now time.Time) (violations []validation.Violation) {
	refuse := func(field, description string, args ...any) {
		violations = append(violations, validation.Violation{Field: field, Description: fmt.Sprintf(description, args...)})
	}
	if _, ok := target.ParsePlace(req.GetParent()); !ok && req.GetParent() != "" {
		violations = append(violations, placeViolation("parent", req.GetParent()))
	}
	o := req.GetOverride()
	if o == nil {
		return violations
	}
	pinned, floored, capped := o.Pin != nil, o.Floor != nil, o.Ceiling != nil //nolint:protogetter // absent is not 0
	if !o.GetHold() && !pinned && !floored && !capped && !o.GetNoScaleDown() && !o.GetNoScaleUp() {
		refuse("override", "Required value: must have at least one of hold, pin, floor, ceiling, noScaleDown and noScaleUp")
	}
	if o.GetHold() && pinned {
		refuse("override.pin", "Forbidden: may not be set together with hold")
	}
	if floored && capped && o.GetFloor() > o.GetCeiling() {
		refuse("override.floor", "Invalid value: %d: must be at most the ceiling, %d", o.GetFloor(), o.GetCeiling())
	}
	if reason := o.GetReason(); reason != "" {
		if i := strings.IndexFunc(reason, isHidden); i >= 0 {
			r, _ := utf8.DecodeRuneInString(reason[i:])
			refuse("override.reason", "Invalid value: must be one line of text: it has the character %U", r)
		} else if !strings.ContainsFunc(reason, func(r rune) bool { return unicode.IsPrint(r) && r != ' ' }) {
			refuse("override.reason", "Required value: must say why")
		}
	}
	return append(violations, timeViolations(o, now)...)
}

// isHidden reports whether a character is none of one line of text for people: it moves the cursor, ends the line or
// turns the direction of writing. A reason goes into events, logs and calls of other programs as it is.
func isHidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d' // letters of some scripts and emoji need them
	return !unicode.IsGraphic(r) && r != nonJoiner && r != joiner
}

// timeViolations returns what is wrong with when an override begins and ends.
func timeViolations(o *setpointv1.Override, now time.Time) (violations []validation.Violation) {
	refuse := func(field, rule string, at *timestamppb.Timestamp) {
		violations = append(violations, validation.Violation{Field: "override." + field, Description: "Invalid value: " + at.AsTime().Format(time.RFC3339) + ": " + rule})
	}
	readable := func(field string, at *timestamppb.Timestamp) bool {
		violations = append(violations, validation.Instant("override."+field, at)...)
		return at.IsValid()
	}
	start := now
	if starts := readable("startTime", o.GetStartTime()); starts {
		start = o.GetStartTime().AsTime()
		if start.Sub(now) > FarthestStart {
			refuse("startTime", "must be at most 365 days from now", o.GetStartTime())
		}
	} else if o.GetStartTime() != nil {
		return violations
	}
	if !readable("expireTime", o.GetExpireTime()) {
		return violations
	}
	switch end := o.GetExpireTime().AsTime(); {
	case !end.After(now):
		refuse("expireTime", "must be in the future; it is "+now.UTC().Format(time.RFC3339)+" here", o.GetExpireTime())
	case !end.After(start):
		refuse("expireTime", "must be after startTime", o.GetExpireTime())
	case end.Sub(start) > LongestLife:
		refuse("expireTime", "must be at most 30 days after the start, "+start.UTC().Format(time.RFC3339), o.GetExpireTime())
	}
	return violations
}

const listOverridesMethod = setpointv1.OverrideService_ListOverrides_FullMethodName

// ListOverrides returns a page of the overrides that the caller may read.
func (s *Service) ListOverrides(ctx context.Context, req *setpointv1.ListOverridesRequest) (*setpointv1.ListOverridesResponse, error) {
	wanted, violations := wantedOf(req)
	if err := apierror.Invalid(append(validation.Structure(req), violations...)); err != nil {
		return nil, err
	}
	// The resource may be of one cluster where the parent is all of them.
	scope, err := access.CallerOf(ctx).Within(policy.Read, store.Filter{Cluster: wanted.cluster})
	if err != nil {
		return nil, err
	}
	list := pagetoken.ListOf(ctx, listOverridesMethod, req.GetParent()+" "+req.GetResource(), scope)
	after, err := s.pages.Position(ctx, list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	wanted.seen = func(p target.Place) bool { return maySee(ctx, scope, p) }
	page, next, err := s.page(ctx, wanted, after, cmp.Or(int(req.GetPageSize()), defaultOverridesPage))
	if err != nil {
		return nil, ofOverride(ctx, req.GetParent(), err)
	}
	response := &setpointv1.ListOverridesResponse{Overrides: page}
	response.NextPageToken, err = s.pages.Next(ctx, list, next)
	return response, err
}

// maySee reports whether the caller of a list may see the overrides of a place itself. One of a cluster as a whole
// needs the right on all its namespaces.
func maySee(ctx context.Context, scope *policy.Scope, p target.Place) bool {
	switch {
	case scope == nil || scope.All():
		return true
	case p.Namespace != "":
		return scope.Contains(p.Cluster, p.Namespace)
	}
	within := access.ScopeOf(ctx, store.Filter{Cluster: p.Cluster})
	return within == nil || within.All()
}

// wanted is what is listed.
type wanted struct {
	// cluster is "" for all.
	cluster string
	// acting are only those that act on a resource, if it has a cluster.
	acting target.Place
	// seen reports whether the caller may see those of a place.
	seen func(target.Place) bool
}

func wantedOf(req *setpointv1.ListOverridesRequest) (w wanted, violations []validation.Violation) {
	cluster, ok := strings.CutPrefix(req.GetParent(), "clusters/")
	switch {
	case req.GetParent() == "":
	case cluster == "-" && ok:
	case ok && target.IsSegment(cluster):
		w.cluster = cluster
	default:
		violations = append(violations, validation.Violation{Field: "parent", Description: fmt.Sprintf("Invalid value: %q: must be clusters/{cluster}, or clusters/- for all clusters", apierror.Clip(req.GetParent()))})
	}
	if req.GetResource() == "" {
		return w, violations
	}
	if w.acting, ok = target.ParsePlace(req.GetResource()); !ok {
		return w, append(violations, placeViolation("resource", req.GetResource()))
	}
	if w.cluster != "" && w.acting.Cluster != w.cluster {
		violations = append(violations, validation.Violation{Field: "resource", Description: fmt.Sprintf("Invalid value: %q: must be in the cluster of the parent, %q", apierror.Clip(req.GetResource()), w.cluster)})
	}
	w.cluster = w.acting.Cluster
	return w, violations
}

// has reports whether an override is listed.
func (w *wanted) has(o *setpointv1.Override) bool {
	place, _, ok := target.ParseOverride(o.GetName())
	return ok && (w.acting.Cluster == "" || place.Has(w.acting)) && w.seen(place)
}

// page returns up to size overrides after a name, and the name to continue after; "": there are no more. A page may be
// short although there are more: a call takes a bounded number of steps.
func (s *Service) page(ctx context.Context, w wanted, after string, size int) (page []*setpointv1.Override, next string, err error) {
	// from is the cluster in which the page begins.
	from, _, _ := strings.Cut(strings.TrimPrefix(after, "clusters/"), "/")
	if w.cluster != "" {
		page, next, err = s.of(ctx, w, []string{w.cluster}, after, size)
		return page, next, err
	}
	if from != "" {
		if page, next, err = s.of(ctx, w, []string{from}, after, size); err != nil || next != "" {
			return page, next, err
		}
	}
	for step := 0; step < pagetoken.MostReads && len(page) < size; step++ {
		clusters, err := s.overrides.Clusters(ctx, from, clustersAtOnce)
		if err != nil {
			return nil, "", err
		}
		// Of others nothing is read: it costs, and an error would name them.
		own := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool {
			within := access.ScopeOf(ctx, store.Filter{Cluster: cluster})
			return within != nil && within.None()
		})
		some, next, err := s.of(ctx, w, own, "", size-len(page))
		if err != nil {
			return nil, "", err
		}
		if page = append(page, some...); next != "" || len(clusters) < clustersAtOnce {
			return page, next, nil
		}
		from = clusters[len(clusters)-1]
	}
	return page, "clusters/" + from + "/z", nil // after all of that cluster
}

// of returns up to size overrides of clusters after a name, and the name to continue after.
func (s *Service) of(ctx context.Context, w wanted, clusters []string, after string, size int) (page []*setpointv1.Override, next string, err error) {
	found, err := s.overrides.Of(ctx, clusters)
	if err != nil {
		return nil, "", err
	}
	for _, all := range found {
		for _, o := range all {
			if o.GetName() <= after || !w.has(o) {
				continue
			}
			if len(page) == size {
				return page, page[size-1].GetName(), nil
			}
			page = append(page, o)
		}
		after = ""
	}
	return page, "", nil
}
