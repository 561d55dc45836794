package nomadtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Server behaves as a Nomad server towards a client that reads scaling policies and scales:
// jobs and scaling policies, scale statuses and events, blocking queries, tokens. Each
// registration and scaling starts a deployment, which ends after DeploymentTime. With a
// Placement the server places allocations, which have statistics; it has no real scheduler. It
// is an http.Handler, safe for concurrent use.
type Server struct {
	// Placement places allocations. Nil: none is placed.
	Placement *Placement
	// Intercept may answer a request instead of the server, with a status above 0 and a text,
	// to inject a failure. May be nil.
	Intercept func(r *http.Request) (status int, text string)
	// DeploymentTime is how long a deployment is active. Default: 2s.
	DeploymentTime time.Duration
	// Builds are the versions of the servers, which have no effect on behaviour. Default: one
	// of the recorded version. After the first request use Replace.
	Builds []string

	mu       sync.Mutex
	index    uint64 // guarded by mu, as is all that follows
	jobs     map[jobKey]*job
	policies uint64 // index of the table of policies
	made     int    // policies
	placed   int    // allocations
	deployed int    // deployments
	acl      acl
	changed  chan struct{} // closed at each change
}

type jobKey struct{ namespace, id string }

// job is a registered job.
type job struct {
	*api.Job
	created, modified, specModified uint64
	stopped, stable                 bool
	counts                          map[string]int64
	policies                        map[string]*api.ScalingPolicy // by group
	events                          map[string][]api.ScalingEvent // newest first
	deployment                      *deployment
	version                         uint64
	allocations                     []*allocation
}

// deployment is active from its begin, shortly after the change that caused it, to its end.
type deployment struct {
	id         string
	begin, end time.Time   // a zero end: a canary waits for its promotion
	before     *deployment // its health counts until the begin of this one, which has none before
}

// deploymentDelay is how long the scheduler takes to create a deployment.
const deploymentDelay = 5 * time.Millisecond

// maxJobCount is job_max_count, and maxEvents the number of kept events per group.
const (
	maxJobCount = 50000
	maxEvents   = 20
)

func (d *deployment) active(now time.Time) bool {
	return d != nil && !now.Before(d.begin) && (d.end.IsZero() || now.Before(d.end))
}

// Snapshot is the state of a server.
type Snapshot struct {
	index, policies uint64
	jobs            map[jobKey]*job
}

// Snapshot returns the state now.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Snapshot{s.index, s.policies, copied(s.jobs)}
}

// Restore restores an earlier state with lower indexes. It wakes no blocking query, not even
// one for a deleted object; the next change gets an index above all earlier ones.
func (s *Server) Restore(from *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies, s.jobs = from.policies, copied(from.jobs)
}

func copied(jobs map[jobKey]*job) map[jobKey]*job {
	out := maps.Clone(jobs)
	for key, j := range out {
		c := *j
		c.counts, c.policies, c.events = maps.Clone(j.counts), maps.Clone(j.policies), maps.Clone(j.events)
		if j.deployment != nil {
			c.deployment = new(*j.deployment)
		}
		c.allocations = nil
		for _, a := range j.allocations {
			c.allocations = append(c.allocations, new(*a))
		}
		out[key] = &c
	}
	return out
}

// next returns the index of a change, and wakes blocking queries. The lock is held.
func (s *Server) next() uint64 {
	s.index++
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
	return s.index
}

// answer is the answer to a request.
type answer struct {
	status int
	index  uint64
	body   any    // JSON
	next   string // start of the next page
	zero   bool   // the index is 0, and the answer says so
	text   string // instead of the body
}

func refuse(status int, format string, args ...any) answer {
	return answer{status: status, text: fmt.Sprintf(format, args...)}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answer{}
	if s.Intercept != nil {
		a.status, a.text = s.Intercept(r)
	}
	if a.status == 0 {
		a = s.route(r)
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler) // close the connection without an answer
	}
	if a.index > 0 || a.zero {
		w.Header().Set("X-Nomad-Index", strconv.FormatUint(a.index, 10))
		w.Header().Set("X-Nomad-Knownleader", "true")
		w.Header().Set("X-Nomad-Lastcontact", "0")
	}
	if a.next != "" {
		w.Header().Set("X-Nomad-Nexttoken", a.next)
	}
	if a.text == "" && a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	if a.text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.text))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	encode(w, a.body)
}

func (s *Server) route(r *http.Request) answer {
	at, namespace := r.URL.Path, r.URL.Query().Get("namespace")
	namespace = cmp.Or(namespace, "default")
	if region := r.URL.Query().Get("region"); region != "" && region != "global" {
		return refuse(http.StatusInternalServerError, "No path to region")
	}
	reads := r.Method == http.MethodGet
	writes := r.Method == http.MethodPost || r.Method == http.MethodPut
	id, ofJob := strings.CutPrefix(at, "/v1/job/")
	s.mu.Lock()
	c := s.caller(r)
	s.mu.Unlock()
	if a, ok := s.routePlaced(r, c, namespace); ok && reads {
		return a
	}
	switch scaled, scale := strings.CutSuffix(id, "/scale"); {
	case at == "/v1/jobs" && writes:
		return s.register(r)
	case at == "/v1/scaling/policies" && reads:
		// Without any capability the list over all namespaces is empty, without an error; but
		// its index is 0.
		if c.bad || namespace != "*" && !c.may(namespace, "list-scaling-policies") {
			return denied()
		}
		if !c.anywhere("list-scaling-policies") {
			return answer{status: http.StatusOK, zero: true, body: []*api.ScalingPolicyListStub{}}
		}
		return s.blocking(r, func() answer { return s.listPolicies(r, c, namespace) })
	case strings.HasPrefix(at, "/v1/scaling/policy/") && reads:
		if !c.may(namespace, "read-scaling-policy") {
			return denied()
		}
		return s.blocking(r, func() answer { return s.policy(strings.TrimPrefix(at, "/v1/scaling/policy/")) })
	case ofJob && scale && reads:
		if !c.may(namespace, "read-job", "read-job-scaling") {
			return denied()
		}
		return s.blocking(r, func() answer { return s.scaleStatus(jobKey{namespace, scaled}) })
	case ofJob && scale && writes:
		return s.scale(r, c, jobKey{namespace, scaled})
	case ofJob && !scale && reads:
		if !c.may(namespace, "read-job") {
			return denied()
		}
		return s.blocking(r, func() answer { return s.job(jobKey{namespace, id}) })
	case ofJob && !scale && r.Method == http.MethodDelete:
		return s.stop(jobKey{namespace, id}, r.URL.Query().Get("purge") == "true")
	case at == "/v1/scaling/policies", strings.HasPrefix(at, "/v1/scaling/policy/"), ofJob:
		return refuse(http.StatusMethodNotAllowed, "Invalid method")
	}
	return answer{status: http.StatusNotFound}
}

// routePlaced handles calls about allocations and deployments, and other reads.
func (s *Server) routePlaced(r *http.Request, c caller, namespace string) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, query := r.URL.Path, r.URL.Query()
	id, ofAllocation := strings.CutPrefix(at, "/v1/client/allocation/")
	ofJob, _ := strings.CutPrefix(at, "/v1/job/")
	mayRead := c.may(namespace, "read-job")
	list := func(body any) (answer, bool) {
		return answer{status: http.StatusOK, index: max(s.index, 1), body: body}, true
	}
	if a, ok := s.cluster(c, at); ok {
		return a, true
	}
	switch {
	case ofAllocation && strings.HasSuffix(id, "/stats"):
		return s.statistics(c, strings.TrimSuffix(id, "/stats")), true
	case at == "/v1/allocations":
		return s.listAllocations(c, query, namespace, ""), true
	case at == "/v1/deployments" && mayRead:
		return list(s.listDeployments(c, query, namespace))
	case strings.HasSuffix(ofJob, "/summary") && ofJob != at:
		return s.summary(c, namespace, strings.TrimSuffix(ofJob, "/summary")), true
	case strings.HasSuffix(ofJob, "/allocations") && ofJob != at:
		return s.listAllocations(c, query, namespace, strings.TrimSuffix(ofJob, "/allocations")), true
	case at == "/v1/deployments":
		return denied(), true
	}
	return answer{}, false
}

// Bounds of blocking queries.
const (
	defaultWait = 5 * time.Minute
	jitter      = 16 // a wait is up to this fraction longer
)

// blocking answers at once or, if the given index is not below that of the answer, once the
// answer's index has passed it or the wait is over: then with the current index, which may be
// lower. There is no 304.
func (s *Server) blocking(r *http.Request, read func() answer) answer {
	index, wait := uint64(0), defaultWait
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return refuse(http.StatusBadRequest, "Invalid wait time")
		}
		if d > 0 && d < defaultWait {
			wait = d
		}
	}
	if text := r.URL.Query().Get("index"); text != "" {
		var err error
		if index, err = strconv.ParseUint(text, 10, 64); err != nil {
			return refuse(http.StatusBadRequest, "Invalid index")
		}
	}
	timer := time.NewTimer(wait + wait/jitter/2)
	defer timer.Stop()
	for over := index == 0; ; {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		a := read()
		changed := s.changed
		s.mu.Unlock()
		if over || a.index > index {
			return a
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-r.Context().Done():
			over = true
		}
	}
}

// The lock is held in the following functions, except in those that take it.

func (s *Server) listPolicies(r *http.Request, c caller, namespace string) answer {
	query := r.URL.Query()
	out := []*api.ScalingPolicyListStub{}
	for key, j := range s.jobs {
		for _, p := range j.policies {
			switch {
			case namespace != "*" && key.namespace != namespace, namespace == "*" && !c.may(key.namespace, "list-scaling-policies"),
				namespace != "*" && query.Has("job") && query.Get("job") != key.id, // ignored for all namespaces
				query.Has("type") && query.Get("type") != p.Type,
				!strings.HasPrefix(p.ID, query.Get("prefix")):
				continue
			}
			out = append(out, &api.ScalingPolicyListStub{ID: p.ID, Enabled: *p.Enabled, Type: p.Type, Target: p.Target, CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex})
		}
	}
	name := func(p *api.ScalingPolicyListStub) string {
		if namespace == "*" {
			return p.ID
		}
		return p.Target["Namespace"] + "\x00" + p.Target["Job"] + "\x00" + p.Target["Group"]
	}
	slices.SortFunc(out, func(a, b *api.ScalingPolicyListStub) int { return strings.Compare(name(a), name(b)) })
	return answer{status: http.StatusOK, index: max(s.policies, 1), body: out}
}

func (s *Server) policy(id string) answer {
	for _, j := range s.jobs {
		for _, p := range j.policies {
			if p.ID == id {
				return answer{status: http.StatusOK, index: p.ModifyIndex, body: p}
			}
		}
	}
	return answer{status: http.StatusNotFound, index: max(s.policies, 1), text: "policy not found"}
}

// refresh marks a job as stable after its first deployment: its ModifyIndex moves, that of its
// specification does not.
func (s *Server) refresh(j *job) {
	if d := j.deployment; !j.stable && d != nil && !d.end.IsZero() && !time.Now().Before(d.end) {
		j.stable, j.modified = true, s.next()
	}
}

func (s *Server) job(key jobKey) answer {
	j := s.jobs[key]
	if j == nil {
		return answer{status: http.StatusNotFound, index: max(s.index, 1), text: "job not found"}
	}
	s.refresh(j)
	out := *j.Job
	out.CreateIndex, out.ModifyIndex, out.JobModifyIndex = &j.created, &j.modified, &j.specModified
	out.Stop, out.TaskGroups = &j.stopped, nil
	for _, g := range j.TaskGroups {
		group := *g
		group.Count, group.Scaling = new(int(j.counts[*g.Name])), j.policies[*g.Name]
		out.TaskGroups = append(out.TaskGroups, &group)
	}
	return answer{status: http.StatusOK, index: j.modified, body: &out}
}

// scaleStatus has in JobModifyIndex the value that is ModifyIndex elsewhere.
func (s *Server) scaleStatus(key jobKey) answer {
	j := s.jobs[key]
	if j == nil {
		return answer{status: http.StatusNotFound, index: max(s.index, 1), text: "job not found"}
	}
	s.refresh(j)
	out := &api.JobScaleStatusResponse{
		JobID: key.id, Namespace: key.namespace, JobCreateIndex: j.created, JobModifyIndex: j.modified, JobStopped: j.stopped,
		TaskGroups: map[string]api.TaskGroupScaleStatus{},
	}
	index := j.modified
	for group, count := range j.counts {
		events := j.events[group]
		if len(events) > 0 {
			index = max(index, events[0].CreateIndex)
		}
		out.TaskGroups[group] = api.TaskGroupScaleStatus{Desired: int(count), Events: events}
	}
	s.countPlaced(key, j, out)
	return answer{status: http.StatusOK, index: index, body: out}
}

func (s *Server) register(r *http.Request) answer {
	var body struct{ Job *api.Job }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Job == nil || body.Job.ID == nil {
		return refuse(http.StatusBadRequest, "Job must be specified")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := jobKey{"default", *body.Job.ID}
	if body.Job.Namespace != nil {
		key.namespace = *body.Job.Namespace
	}
	before := s.jobs[key]
	if before != nil && !before.stopped && same(before.Job, body.Job) {
		return s.registered(s.next(), before.specModified)
	}
	j := &job{Job: body.Job, counts: map[string]int64{}, policies: map[string]*api.ScalingPolicy{}, events: map[string][]api.ScalingEvent{}}
	index := s.next()
	j.created, j.modified, j.specModified = index, index, index
	if before != nil {
		j.created, j.events, j.stable = before.created, before.events, before.stable
		j.version, j.allocations, j.deployment = before.version+1, before.allocations, before.deployment
	}
	for _, g := range body.Job.TaskGroups {
		j.counts[*g.Name] = 1
		if g.Count != nil {
			j.counts[*g.Name] = int64(*g.Count)
		}
		if g.Scaling != nil {
			s.setPolicy(j, before, key, g, index)
		}
	}
	if s.jobs == nil {
		s.jobs = map[jobKey]*job{}
	}
	s.jobs[key] = j
	s.deploy(j, before != nil)
	s.reconcile(key, j)
	return s.registered(index, index)
}

func (s *Server) registered(index, specModified uint64) answer {
	return answer{status: http.StatusOK, index: index, body: &api.JobRegisterResponse{
		EvalID: "00000000-0000-0000-0000-000000000001", EvalCreateIndex: index, JobModifyIndex: specModified, QueryMeta: api.QueryMeta{LastIndex: index},
	}}
}

// setPolicy keeps the policy of a group that had one, and creates one otherwise.
func (s *Server) setPolicy(j, before *job, key jobKey, g *api.TaskGroup, index uint64) {
	p := &api.ScalingPolicy{
		Min: g.Scaling.Min, Max: g.Scaling.Max, Policy: g.Scaling.Policy, Enabled: g.Scaling.Enabled, Type: "horizontal",
		Target: map[string]string{"Namespace": key.namespace, "Job": key.id, "Group": *g.Name}, CreateIndex: index, ModifyIndex: index,
	}
	if p.Enabled == nil {
		p.Enabled = new(true)
	}
	if p.Min == nil {
		p.Min = new(j.counts[*g.Name])
	}
	var old *api.ScalingPolicy
	if before != nil {
		old = before.policies[*g.Name]
	}
	if old != nil {
		p.ID, p.CreateIndex = old.ID, old.CreateIndex
		if same(withoutIndex(p), withoutIndex(old)) {
			j.policies[*g.Name] = old
			return
		}
	} else {
		s.made++
		p.ID = fmt.Sprintf("00000000-0000-0000-0000-%012d", s.made)
	}
	s.policies, j.policies[*g.Name] = index, p
}

func withoutIndex(p *api.ScalingPolicy) api.ScalingPolicy {
	out := *p
	out.ModifyIndex = 0
	return out
}

// same reports whether both have the same JSON.
func same(a, b any) bool {
	one, err1 := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(other)
}

// evaluated reports whether a job runs by itself.
func evaluated(j *api.Job) bool { return j.Periodic == nil && j.ParameterizedJob == nil }

func typeOf(j *api.Job) string {
	if j.Type == nil {
		return api.JobTypeService
	}
	return *j.Type
}

// deploy starts a deployment, if the job has them: services with an update block, and system
// jobs. A new version of a job with canaries waits for their promotion.
func (s *Server) deploy(j *job, newVersion bool) {
	updated := func(g *api.TaskGroup) bool { return g.Update != nil }
	if kind := typeOf(j.Job); kind != api.JobTypeSystem && (kind != api.JobTypeService || !slices.ContainsFunc(j.TaskGroups, updated)) {
		return
	}
	begin := time.Now().Add(deploymentDelay)
	s.deployed++
	d := &deployment{id: fmt.Sprintf("00000000-0000-0000-0003-%012d", s.deployed), begin: begin, end: begin.Add(s.DeploymentTime)}
	if s.DeploymentTime == 0 {
		d.end = begin.Add(2 * time.Second)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(j.counts)), func(n int64) bool { return n > 0 }) {
		d.end = begin // nothing to wait for
	}
	for _, g := range j.TaskGroups {
		if g.Update != nil && g.Update.Canary != nil && *g.Update.Canary > 0 && newVersion {
			d.end = time.Time{}
		}
		if g.Update != nil && g.Update.MaxParallel != nil && *g.Update.MaxParallel == 0 {
			return
		}
	}
	if j.deployment != nil {
		d.before = new(*j.deployment)
		d.before.before = nil
	}
	j.deployment = d
}

func (s *Server) stop(key jobKey, purge bool) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := s.next()
	if j := s.jobs[key]; j != nil {
		j.stopped, j.modified, j.specModified = true, index, index
		s.reconcile(key, j)
		for group, p := range j.policies {
			stopped := *p
			stopped.Enabled, stopped.ModifyIndex = new(false), index
			j.policies[group], s.policies = &stopped, index
		}
		if purge {
			delete(s.jobs, key)
		}
	}
	return s.registered(index, index)
}

// scale checks what an agent can meet, in Nomad's order.
func (s *Server) scale(r *http.Request, c caller, key jobKey) answer {
	var request api.ScalingRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	group, count := request.Target["Group"], request.Count
	if !c.may(key.namespace, "scale-job", "submit-job") {
		return denied()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[key]
	if j == nil {
		return refuse(http.StatusNotFound, "job %q not found", key.id)
	}
	previous, ok := j.counts[group]
	if !ok {
		return refuse(http.StatusBadRequest, "task group %q specified for scaling does not exist in job", group)
	}
	if count != nil {
		if a, refused := s.mayNot(j, group, *count, request.JobModifyIndex); refused {
			return a
		}
	}
	return s.scaled(key, j, group, previous, &request)
}

// mayNot returns why a count is refused.
func (s *Server) mayNot(j *job, group string, count int64, index uint64) (answer, bool) {
	if p := j.policies[group]; p != nil {
		if p.Max != nil && count > *p.Max {
			return refuse(http.StatusBadRequest, "group count was greater than scaling policy maximum: %d > %d", count, *p.Max), true
		}
		if count < *p.Min {
			return refuse(http.StatusBadRequest, "group count was less than scaling policy minimum: %d < %d", count, *p.Min), true
		}
	}
	total := count - j.counts[group]
	for n := range maps.Values(j.counts) {
		total += n
	}
	switch {
	case total > maxJobCount:
		return refuse(http.StatusInternalServerError, "total count was greater than configured job_max_count: %d > %d", total, maxJobCount), true
	case j.deployment.active(time.Now()):
		return refuse(http.StatusBadRequest, "job scaling blocked due to active deployment"), true
	case index != 0 && index != j.specModified:
		return refuse(http.StatusInternalServerError, "Enforcing job modify index %d: job exists with conflicting job modify index: %d", index, j.specModified), true
	}
	return answer{}, false
}

// scaled writes the count, if given, and the event.
func (s *Server) scaled(key jobKey, j *job, group string, previous int64, request *api.ScalingRequest) answer {
	reply := &api.JobRegisterResponse{JobModifyIndex: j.modified}
	event := api.ScalingEvent{
		Count: request.Count, PreviousCount: previous, Error: request.Error, Message: request.Message, Meta: request.Meta, Time: uint64(time.Now().UnixNano()),
	}
	if request.Count != nil {
		s.refresh(j)
		j.counts[group] = *request.Count
		j.modified = s.next()
		j.specModified = j.modified
		reply.JobModifyIndex = j.modified
		if evaluated(j.Job) {
			reply.EvalID, reply.EvalCreateIndex = "00000000-0000-0000-0000-000000000001", s.next()
			event.EvalID = &reply.EvalID
		}
		j.version++
		s.deploy(j, false)
		s.reconcile(key, j)
	}
	event.CreateIndex = s.next()
	reply.LastIndex = event.CreateIndex
	events := append([]api.ScalingEvent{event}, j.events[group]...)
	j.events[group] = events[:min(len(events), maxEvents)]
	return answer{status: http.StatusOK, index: event.CreateIndex, body: reply}
}
