package operations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// agentTTL is how long an announcement counts.
	agentTTL = time.Minute
	// maxOthers bounds the agents of an answer, announcementsRead those that one call reads.
	maxOthers         = 10
	announcementsRead = 64
	// maxNamespaceBytes bounds the namespaces of an announcement.
	maxNamespaceBytes = 4 << 10
	// agentsPerCaller and agentsInAll bound the announcements that an instance takes, and
	// agentsPerPlatform those of a platform, which each call reads.
	agentsPerPlatform = 32
	agentsPerCaller   = 256
	agentsInAll       = 10_000
)

// announcement is an agent in the store, or a part of one that scales workloads of many namespaces.
type announcement struct {
	ID         string    `json:"id"`
	Cluster    string    `json:"cluster"`
	Namespaces []string  `json:"namespaces,omitempty"`
	Since      time.Time `json:"since"`
	Seen       time.Time `json:"seen"`
}

// meets reports whether both agents scale workloads of some namespace.
func (a *announcement) meets(other *announcement) bool {
	return len(a.Namespaces) == 0 || len(other.Namespaces) == 0 ||
		slices.ContainsFunc(a.Namespaces, func(n string) bool { return slices.Contains(other.Namespaces, n) })
}

// agentOf is the agent of an announcement's id: one with more namespaces than an announcement takes makes several, ID,
// ID.1, ID.2 and so on.
func agentOf(id string) string {
	if dot := strings.LastIndexByte(id, '.'); dot > 0 && strings.Trim(id[dot+1:], "0123456789") == "" {
		return id[:dot]
	}
	return id
}

// join adds another part of the same agent.
func (a *announcement) join(part *announcement) {
	if len(a.Namespaces) == 0 || len(part.Namespaces) == 0 {
		a.Namespaces = nil // all
	} else {
		a.Namespaces = append(a.Namespaces, part.Namespaces...)
	}
	a.Since = minTime(a.Since, part.Since)
	if part.Seen.After(a.Seen) {
		a.Seen = part.Seen
	}
}

// AnnounceAgent implements setpointv1.OperationsServiceServer.
func (s *Service) AnnounceAgent(ctx context.Context, req *setpointv1.AnnounceAgentRequest) (*setpointv1.AnnounceAgentResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	if err := checkNamespaces(req.GetNamespaces()); err != nil {
		return nil, err
	}
	caller, cluster := access.CallerOf(ctx), strings.TrimPrefix(req.GetParent(), "clusters/")
	kept := s.instance.others
	if kept == nil {
		return nil, apierror.New(codes.Unimplemented, setpointv1.ErrorReason_ERROR_REASON_UNSPECIFIED, "the store of this service keeps no announcements")
	}
	list, now := store.AgentsList+req.GetPlatform(), time.Now().UTC()
	values, err := kept.Announced(ctx, list, announcementsRead)
	if err != nil {
		return nil, apierror.OfStore(ctx, "agents", err)
	}
	self := &announcement{ID: req.GetAgentId(), Cluster: cluster, Namespaces: req.GetNamespaces(), Since: now, Seen: now}
	others, before := self.among(values)
	if self.ID != "" && before == nil && !req.GetStopping() && len(values) >= agentsPerPlatform {
		return nil, apierror.OverLimit("agents", agentsPerPlatform, fmt.Sprintf("agents of this platform have made %d announcements in the last minute, each of up to 100 namespaces; there can be no more", agentsPerPlatform))
	}
	if self.ID != "" {
		if err := s.announce(ctx, caller, list, before, self, req.GetStopping()); err != nil {
			return nil, err
		}
	}
	response := &setpointv1.AnnounceAgentResponse{}
	for _, a := range others[:min(len(others), maxOthers)] {
		other := &setpointv1.OtherAgent{StartTime: timestamppb.New(a.Since), AnnounceTime: timestamppb.New(a.Seen)}
		if maySee(caller, a.Cluster) {
			other.Cluster = a.Cluster
		}
		response.Others = append(response.Others, other)
	}
	return response, nil
}

func checkNamespaces(names []string) error {
	total := 0
	for i, name := range names {
		if name == "" || len(name) > 253 {
			return apierror.InvalidField(fmt.Sprintf("namespaces[%d]", i), "must be 1 to 253 bytes")
		}
		total += len(name)
	}
	if total > maxNamespaceBytes {
		return apierror.InvalidField("namespaces", fmt.Sprintf("must be at most %d bytes together; none stands for all", maxNamespaceBytes))
	}
	return nil
}

// among returns the other agents among the announcements of a platform, the oldest first, and the
// agent's own last announcement, from which it takes when it began.
func (a *announcement) among(values [][]byte) (others []*announcement, before []byte) {
	newest := map[string]*announcement{}
	for _, value := range values {
		told := &announcement{}
		switch {
		case json.Unmarshal(value, told) != nil: // of another version
		case a.ID != "" && told.ID == a.ID:
			before, a.Since = value, minTime(a.Since, told.Since)
		case agentOf(told.ID) == agentOf(a.ID): // the rest of this one
		case newest[told.ID] == nil || newest[told.ID].Seen.Before(told.Seen):
			newest[told.ID] = told
		}
	}
	agents := map[string]*announcement{}
	for id, part := range newest {
		part.ID = agentOf(id)
		if whole := agents[part.ID]; whole != nil {
			whole.join(part)
			continue
		}
		agents[part.ID] = part
	}
	for _, other := range agents {
		// One that has said nothing since this one began may have died before.
		if a.meets(other) && (a.ID == "" || other.Seen.After(a.Since)) {
			others = append(others, other)
		}
	}
	slices.SortFunc(others, func(a, b *announcement) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return others, before
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// announce replaces an agent's announcement, or ends it.
func (s *Service) announce(ctx context.Context, caller *access.Caller, list string, before []byte, a *announcement, stopping bool) error {
	var value []byte
	if key := list + " " + a.ID; stopping {
		s.agents.leave(key)
		if before == nil {
			return nil
		}
	} else {
		if err := s.agents.admit(key, caller.Name(), a.Seen); err != nil {
			return err
		}
		var err error
		if value, err = json.Marshal(a); err != nil {
			return err
		}
	}
	if err := s.instance.others.Announce(ctx, list, before, value, agentTTL); err != nil {
		return apierror.OfStore(ctx, "agents", err)
	}
	return nil
}

// maySee reports whether a caller may know a cluster's name.
func maySee(c *access.Caller, cluster string) bool {
	return c == nil || !c.Grants.Within(policy.Recommend, cluster, "-").None() || !c.Grants.Within(policy.Read, cluster, "-").None()
}

// roll bounds the agents that callers have announced at this instance. The zero value is empty.
type roll struct {
	mu sync.Mutex
	// agents have their caller, and when the announcement ends. Guarded by mu.
	agents map[string]rolled
	// of counts each caller's. Guarded by mu.
	of map[string]int
	// swept is when ended ones were last removed. Guarded by mu.
	swept time.Time
}

type rolled struct {
	caller string
	until  time.Time
}

// admit counts an agent until its announcement ends; an error: there are too many.
func (r *roll) admit(key, caller string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.agents[key]; ok {
		r.agents[key] = rolled{known.caller, now.Add(agentTTL)}
		return nil
	}
	if r.full(caller) && now.Sub(r.swept) >= time.Second {
		r.swept = now
		for key, a := range r.agents {
			if now.After(a.until) {
				r.drop(key)
			}
		}
	}
	if r.full(caller) {
		return apierror.OverLimit("agents", agentsPerCaller, fmt.Sprintf("too many agents are announced at this instance: a caller may have %d, all together %d", agentsPerCaller, agentsInAll))
	}
	if r.agents == nil {
		r.agents, r.of = map[string]rolled{}, map[string]int{}
	}
	r.agents[key] = rolled{caller, now.Add(agentTTL)}
	r.of[caller]++
	return nil
}

func (r *roll) full(caller string) bool {
	return r.of[caller] >= agentsPerCaller || len(r.agents) >= agentsInAll
}

// leave drops an agent.
func (r *roll) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(key)
}

// drop is leave with the lock held.
func (r *roll) drop(key string) {
	a, ok := r.agents[key]
	if !ok {
		return
	}
	delete(r.agents, key)
	if r.of[a.caller]--; r.of[a.caller] == 0 {
		delete(r.of, a.caller)
	}
}
