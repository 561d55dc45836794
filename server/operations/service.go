package operations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	maxInstances   = 1000
	maxPermissions = 100
	callersPage    = 100
	// countedEvery is the minimum interval of counting the store's targets, which costs some
	// hundred small operations.
	countedEvery = 30 * time.Second
)

// Service implements setpointv1.OperationsServiceServer.
type Service struct {
	setpointv1.UnimplementedOperationsServiceServer
	instance *Instance

	agents roll

	// counting is held by the call that counts.
	counting chan struct{}
	counted  store.Usage // guarded by counting
	// countedAt is the time of counting; zero: never. Guarded by counting.
	countedAt time.Time
}

// New returns a service of an instance.
func New(i *Instance) *Service { return &Service{instance: i, counting: make(chan struct{}, 1)} }

// GetCaller implements setpointv1.OperationsServiceServer, as do those below.
func (s *Service) GetCaller(ctx context.Context, _ *setpointv1.GetCallerRequest) (*setpointv1.GetCallerResponse, error) {
	c := access.CallerOf(ctx)
	if c == nil {
		everything := &setpointv1.Permission{Verbs: policy.Everything.Names(), Clusters: []string{"*"}, Namespaces: []string{"*"}}
		return &setpointv1.GetCallerResponse{Caller: &setpointv1.Caller{
			Permissions: []*setpointv1.Permission{everything}, CurrentTime: timestamppb.Now(),
		}}, nil
	}
	caller := &setpointv1.Caller{Name: c.Identity.Name, Method: string(c.Identity.Method), Groups: c.Identity.Groups.Names(), CurrentTime: timestamppb.Now()}
	if expires := timestamppb.New(c.Identity.Expires); !c.Identity.Expires.IsZero() && expires.CheckValid() == nil { // else after the year 9999
		caller.ExpireTime = expires
	}
	permissions, more := c.Grants.Permissions(maxPermissions)
	for _, p := range permissions {
		caller.Permissions = append(caller.Permissions, &setpointv1.Permission{Verbs: p.Verbs.Names(), Clusters: p.Clusters, Namespaces: p.Namespaces})
	}
	caller.PermissionsTruncated = more
	return &setpointv1.GetCallerResponse{Caller: caller}, nil
}

// ListInstances lists this instance, and the others by their heartbeats.
func (s *Service) ListInstances(ctx context.Context, _ *setpointv1.ListInstancesRequest) (*setpointv1.ListInstancesResponse, error) {
	self := s.instance.now()
	byID := map[string]*setpointv1.Instance{self.GetId(): self}
	if s.instance.others != nil {
		values, err := s.instance.others.Announced(ctx, store.InstancesList, maxInstances)
		if err != nil {
			return nil, apierror.OfStore(ctx, "instances", err)
		}
		for _, value := range values {
			told := &setpointv1.Instance{}
			if proto.Unmarshal(value, told) != nil || told.GetId() == self.GetId() {
				continue // of a later version, or this instance itself
			}
			if known := byID[told.GetId()]; known == nil || known.GetHeartbeatTime().AsTime().Before(told.GetHeartbeatTime().AsTime()) {
				byID[told.GetId()] = told
			}
		}
	}
	response := &setpointv1.ListInstancesResponse{}
	for _, each := range byID {
		response.Instances = append(response.Instances, each)
	}
	slices.SortFunc(response.Instances, func(a, b *setpointv1.Instance) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return response, nil
}

// GetStore checks whether the store responds.
func (s *Service) GetStore(ctx context.Context, _ *setpointv1.GetStoreRequest) (*setpointv1.GetStoreResponse, error) {
	began := time.Now()
	err := s.instance.options.Engine.Ping(ctx)
	state := &setpointv1.StoreState{Kind: s.instance.options.StoreKind, Reachable: err == nil, Latency: durationpb.New(time.Since(began))}
	if err != nil {
		state.Problem = apierror.StoreProblem(err)
	}
	if some, is := s.instance.options.Engine.(store.Sharded); is && err == nil {
		if err = some.Lacking(); err != nil {
			state.Problem = "in part: " + apierror.StoreProblem(err)
		}
	}
	if used, at, ok := s.count(ctx, err == nil); ok {
		state.Targets, state.TargetBytes, state.CountedTime = &used.Keys, &used.Bytes, timestamppb.New(at)
	}
	if err := apierror.OfContext(ctx); err != nil {
		return nil, err
	}
	return &setpointv1.GetStoreResponse{Store: state}, nil
}

// count returns the store's usage, counted recently or now, by one call at a time while
// others wait. The last result remains while the store is unreachable.
func (s *Service) count(ctx context.Context, reachable bool) (used store.Usage, at time.Time, ok bool) {
	engine, can := s.instance.options.Engine.(store.Usages)
	if !can {
		return store.Usage{}, time.Time{}, false
	}
	select {
	case s.counting <- struct{}{}:
		defer func() { <-s.counting }()
	case <-ctx.Done():
		return store.Usage{}, time.Time{}, false
	}
	if now := time.Now(); reachable && now.Sub(s.countedAt) >= countedEvery {
		if fresh, err := engine.Usage(ctx, ""); err == nil {
			s.counted, s.countedAt = fresh, now
		}
	}
	return s.counted, s.countedAt, !s.countedAt.IsZero()
}

// ListCallers shows other callers only with the verb operate.
func (s *Service) ListCallers(ctx context.Context, req *setpointv1.ListCallersRequest) (*setpointv1.ListCallersResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	response := &setpointv1.ListCallersResponse{InstanceId: s.instance.id}
	l := s.instance.options.Limiter
	if l == nil {
		return response, nil
	}
	var uses []limit.Use
	total := 1
	if c := access.CallerOf(ctx); c != nil && c.Grants.CheckAnywhere(policy.Operate) != nil {
		uses = []limit.Use{l.UseOf(c.Identity.Name)}
	} else {
		uses, total = l.Uses(cmp.Or(int(req.GetPageSize()), callersPage))
	}
	response.Total = count(total)
	for i := range uses {
		response.Callers = append(response.Callers, callerUse(&uses[i]))
	}
	return response, nil
}

func callerUse(u *limit.Use) *setpointv1.CallerUse {
	use := &setpointv1.CallerUse{Name: u.Name, InFlight: count(u.InFlight), Streams: count(u.Streams)}
	if n := count(u.Limits.InFlight); n > 0 {
		use.MaxInFlight = &n
	}
	if n := count(u.Limits.Streams); n > 0 {
		use.MaxStreams = &n
	}
	if u.Limits.Rate > 0 {
		burst := count(u.Limits.Burst)
		use.MaxRate, use.Burst, use.BurstLeft = &u.Limits.Rate, &burst, &u.BurstLeft
	}
	return use
}
