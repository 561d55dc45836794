package nomadtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Placement makes a server place allocations on one node of cores with 2300 MHz, which has room
// for any number of them unless one is larger than the node. The zero value of a field is its
// default.
type Placement struct {
	// Room is how many allocations of all jobs the node has room for. Default: any number.
	Room int
	// StartTime is how long an allocation is pending. Default: 1s.
	StartTime time.Duration
	// StopTime is how long a stopped allocation lingers. Default: 1s.
	StopTime time.Duration
	// Usage is an allocation's usage: MHz of CPU and bytes of memory, per task. Nil: none. It
	// is called with the server's lock held.
	Usage func(a *api.AllocationListStub) (mhz float64, rss uint64)
	// Change changes the listed allocation. May be nil. It is called with the server's lock
	// held.
	Change func(a *api.AllocationListStub)
}

// Times of statistics: the first sample exists after a second; CPU is sampled every 5 s, and is
// 0 in the first samples.
const (
	firstSample = time.Second
	cpuEvery    = 5 * time.Second
	cpuUnknown  = 10 * time.Second
)

// allocation is a placed allocation.
type allocation struct {
	id, name, group  string
	version          uint64
	created, started time.Time
	stopped          time.Time // zero: it is to run
	index            uint64    // of its placement
	taken            int64     // the interval of CPU that cpu belongs to
	cpu              float64   // MHz
}

// reconcile places and stops allocations to match each group's count. The lock is held.
func (s *Server) reconcile(key jobKey, j *job) {
	if s.Placement == nil || typeOf(j.Job) == api.JobTypeSystem || !evaluated(j.Job) {
		return
	}
	now := time.Now()
	for _, g := range j.TaskGroups {
		want := j.counts[*g.Name]
		if j.stopped {
			want = 0
		}
		taken := map[int64]bool{}
		for _, a := range j.allocations {
			number := a.number()
			switch {
			case a.group != *g.Name || !a.stopped.IsZero():
			case number >= want:
				a.stopped = now
			default:
				taken[number], a.version = true, j.version
			}
		}
		for number := range want {
			if taken[number] || !fits(j.Job, *g.Name) || s.Placement.Room > 0 && s.live() >= s.Placement.Room {
				continue
			}
			s.placed++
			j.allocations = append(j.allocations, &allocation{
				id: fmt.Sprintf("00000000-0000-0000-0002-%012d", s.placed), name: fmt.Sprintf("%s.%s[%d]", key.id, *g.Name, number), group: *g.Name,
				version: j.version, created: now, started: now.Add(cmp.Or(s.Placement.StartTime, time.Second)), index: s.index,
			})
		}
	}
}

// live counts the allocations that are to run. The lock is held.
func (s *Server) live() (n int) {
	for _, j := range s.jobs {
		for _, a := range j.allocations {
			if a.stopped.IsZero() {
				n++
			}
		}
	}
	return n
}

// summary counts the allocations of a job's groups by state; those that should run and are not
// placed are queued. The lock is held.
func (s *Server) summary(c caller, namespace, id string) answer {
	if !c.may(namespace, "read-job") {
		return denied()
	}
	key := jobKey{namespace, id}
	j := s.jobs[key]
	if j == nil {
		return refuse(http.StatusNotFound, "job not found")
	}
	s.refresh(j)
	out := &api.JobSummary{JobID: id, Namespace: namespace, Summary: map[string]api.TaskGroupSummary{}, Children: &api.JobChildrenSummary{}, CreateIndex: j.created, ModifyIndex: j.modified}
	for group, count := range j.counts {
		one := api.TaskGroupSummary{}
		if s.Placement != nil && !j.stopped {
			one.Queued = int(count)
		}
		for _, a := range j.allocations {
			if a.group != group {
				continue
			}
			if a.stopped.IsZero() {
				one.Queued--
			}
			switch s.stub(key, j, a).ClientStatus {
			case "pending":
				one.Starting++
			case "running":
				one.Running++
			case "complete":
				one.Complete++
			}
		}
		one.Queued = max(one.Queued, 0)
		out.Summary[group] = one
	}
	return answer{status: http.StatusOK, index: max(s.index, 1), body: out}
}

// nodeCPU is the node's CPU, MHz.
const nodeCPU = 2 * 2300

func fits(j *api.Job, group string) bool {
	total := int64(0)
	for _, t := range tasksOf(j, group) {
		total += t.cpu
	}
	return total <= nodeCPU
}

// number is the number in its name.
func (a *allocation) number() int64 {
	n, _ := strconv.ParseInt(a.name[strings.LastIndexByte(a.name, '[')+1:len(a.name)-1], 10, 64)
	return n
}

func (s *Server) stub(key jobKey, j *job, a *allocation) *api.AllocationListStub {
	now := time.Now()
	out := &api.AllocationListStub{
		ID: a.id, Name: a.name, Namespace: key.namespace, NodeID: nodeID, JobID: key.id, JobType: typeOf(j.Job),
		JobVersion: a.version, TaskGroup: a.group, DesiredStatus: "run", ClientStatus: "running", ClientDescription: "Tasks are running",
		CreateIndex: a.index, ModifyIndex: a.index, CreateTime: a.created.UnixNano(), ModifyTime: a.started.UnixNano(),
		TaskStates: map[string]*api.TaskState{},
	}
	state := "running"
	if now.Before(a.started) {
		state, out.ClientStatus, out.ClientDescription = "pending", "pending", "No tasks have started"
	}
	if !a.stopped.IsZero() {
		out.DesiredStatus = "stop"
		if !now.Before(a.stopped.Add(cmp.Or(s.Placement.StopTime, time.Second))) {
			state, out.ClientStatus, out.ClientDescription = "dead", "complete", "All tasks have completed"
		}
	}
	out.AllocatedResources = &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{}}
	for _, t := range tasksOf(j.Job, a.group) {
		task := &api.TaskState{State: state}
		if state != "pending" {
			task.StartedAt = a.started
		}
		out.TaskStates[t.name] = task
		out.AllocatedResources.Tasks[t.name] = &api.AllocatedTaskResources{
			Cpu: api.AllocatedCpuResources{CpuShares: t.cpu}, Memory: api.AllocatedMemoryResources{MemoryMB: t.memory},
		}
	}
	// A new version resets the health of all until its deployment ends.
	d := j.deployment
	if d != nil && now.Before(d.begin) {
		d = d.before
	}
	if d != nil && state == "running" && !d.end.IsZero() && !now.Before(d.end) {
		out.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: new(true), Timestamp: d.end}
	}
	if s.Placement.Change != nil {
		s.Placement.Change(out)
	}
	return out
}

type task struct {
	name        string
	cpu, memory int64
}

func tasksOf(j *api.Job, group string) []task {
	var out []task
	for _, g := range j.TaskGroups {
		if *g.Name != group {
			continue
		}
		for _, t := range g.Tasks {
			one := task{t.Name, 100, 300}
			if t.Resources != nil && t.Resources.CPU != nil {
				one.cpu = int64(*t.Resources.CPU)
			}
			if t.Resources != nil && t.Resources.MemoryMB != nil {
				one.memory = int64(*t.Resources.MemoryMB)
			}
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		out = append(out, task{"app", 100, 300})
	}
	return out
}

// listAllocations lists the allocations of a namespace, or all that the caller may read. The
// lock is held.
func (s *Server) listAllocations(c caller, query url.Values, namespace, ofJob string) answer {
	if namespace != "*" && !c.may(namespace, "read-job") || namespace == "*" && !c.anywhere("read-job") {
		return denied()
	}
	out := []*api.AllocationListStub{}
	for key, j := range s.jobs {
		if namespace != "*" && key.namespace != namespace || !c.may(key.namespace, "read-job") || ofJob != "" && key.id != ofJob {
			continue
		}
		for _, a := range j.allocations {
			stub := s.stub(key, j, a)
			if !matches(query.Get("filter"), stub) {
				continue
			}
			if query.Get("resources") != "true" {
				stub.AllocatedResources = nil
			}
			if query.Get("task_states") == "false" {
				stub.TaskStates = nil
			}
			out = append(out, stub)
		}
	}
	slices.SortFunc(out, func(a, b *api.AllocationListStub) int { return strings.Compare(a.ID, b.ID) })
	page, next := paged(query, out, func(a *api.AllocationListStub) string { return a.ID })
	return answer{status: http.StatusOK, index: max(s.index, 1), body: page, next: next}
}

// paged returns the page of a query, and the start of the next one.
func paged[T any](query url.Values, all []T, id func(T) string) (page []T, next string) {
	if from := query.Get("next_token"); from != "" {
		at := slices.IndexFunc(all, func(one T) bool { return id(one) >= from })
		if at < 0 {
			at = len(all)
		}
		all = all[at:]
	}
	if n, err := strconv.Atoi(query.Get("per_page")); err == nil && n > 0 && len(all) > n {
		return all[:n], id(all[n])
	}
	return all, ""
}

// matches evaluates a filter that compares fields with texts, with "and" before "or".
func matches(filter string, one any) bool {
	if filter == "" {
		return true
	}
	for _, either := range strings.Split(filter, " or ") {
		all := true
		for _, comparison := range strings.Split(either, " and ") {
			field, text, equal := strings.Cut(comparison, " == ")
			if !equal {
				field, text, _ = strings.Cut(comparison, " != ")
			}
			text = strings.Trim(strings.TrimSpace(text), `"`)
			value := reflect.ValueOf(one).Elem().FieldByName(strings.TrimSpace(field))
			all = all && value.IsValid() && (value.String() == text) == equal
		}
		if all {
			return true
		}
	}
	return false
}

// cluster handles calls that are not about jobs. The lock is held.
func (s *Server) cluster(c caller, at string) (answer, bool) {
	list := func(body any) (answer, bool) {
		return answer{status: http.StatusOK, index: max(s.index, 1), body: body}, true
	}
	switch {
	case at == "/v1/status/leader":
		return answer{status: http.StatusOK, body: "127.0.0.1:4647"}, true
	case at == "/v1/namespaces" && c.bad, at == "/v1/agent/members" && !c.nodes():
		return denied(), true
	case at == "/v1/agent/members":
		return answer{status: http.StatusOK, body: s.members()}, true
	case at == "/v1/namespaces":
		return list([]*api.Namespace{})
	}
	return answer{}, false
}

// Replace replaces the servers by ones of those versions.
func (s *Server) Replace(builds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Builds = builds
}

// members are the servers of this region, and a very old one of another.
func (s *Server) members() *api.ServerMembers {
	builds := s.Builds
	if len(builds) == 0 {
		builds = []string{recordedBuild}
	}
	out := &api.ServerMembers{ServerName: "server-1", ServerRegion: "global", ServerDC: "dc1"}
	for i, build := range builds {
		out.Members = append(out.Members, &api.AgentMember{
			Name: fmt.Sprintf("server-%d.global", i+1), Status: "alive", Tags: map[string]string{"build": build, "region": "global", "role": "nomad"},
		})
	}
	out.Members = append(out.Members,
		&api.AgentMember{Name: "server-1.elsewhere", Status: "alive", Tags: map[string]string{"build": "0.9.0", "region": "elsewhere"}},
		&api.AgentMember{Name: "gone.global", Status: "left", Tags: map[string]string{"build": "0.9.0", "region": "global"}})
	return out
}

// recordedBuild is the version of the recordings.
const recordedBuild = "2.0.6-dev"

// nodeID is the one node's.
const nodeID = "25e2f7c3-c48a-c234-ed2f-db7ed0c2450d"

// statistics returns an allocation's statistics. The lock is held.
func (s *Server) statistics(c caller, id string) answer {
	for key, j := range s.jobs {
		for _, a := range j.allocations {
			if a.id != id {
				continue
			}
			if !c.may(key.namespace, "read-job") {
				return denied()
			}
			return answer{status: http.StatusOK, body: s.usage(key, j, a)}
		}
	}
	if c.bad {
		return denied()
	}
	return refuse(http.StatusNotFound, "Unknown allocation %q", id)
}

func (s *Server) usage(key jobKey, j *job, a *allocation) *api.AllocResourceUsage {
	now := time.Now()
	out := &api.AllocResourceUsage{ResourceUsage: &api.ResourceUsage{CpuStats: &api.CpuStats{}, MemoryStats: &api.MemoryStats{}}, Tasks: map[string]*api.TaskResourceUsage{}}
	stub := s.stub(key, j, a)
	age := now.Sub(a.started)
	if age < firstSample {
		return out
	}
	ended := stub.ClientStatus != "running"
	var rss uint64
	if s.Placement.Usage != nil {
		cpu, memory := s.Placement.Usage(stub)
		rss = memory
		if taken := int64(age / cpuEvery); taken != a.taken && !ended {
			a.taken, a.cpu = taken, cpu
		}
	}
	ticks := a.cpu
	if age < cpuUnknown {
		ticks = 0
	}
	at := a.started.Add(age.Truncate(time.Second)).UnixNano()
	measured := &api.ResourceUsage{
		CpuStats:    &api.CpuStats{TotalTicks: ticks, Percent: ticks / 23, Measured: []string{"System Mode", "User Mode", "Percent"}},
		MemoryStats: &api.MemoryStats{RSS: rss, Measured: []string{"RSS", "Swap"}},
	}
	for name := range stub.TaskStates {
		out.Tasks[name] = &api.TaskResourceUsage{ResourceUsage: measured, Timestamp: at, Pids: map[string]*api.ResourceUsage{"4711": {CpuStats: &api.CpuStats{Percent: ticks / 23}, MemoryStats: &api.MemoryStats{RSS: rss}}}}
	}
	if !ended {
		out.Timestamp = at
		out.ResourceUsage = measured
	}
	return out
}

// listDeployments lists the deployments of a namespace. The lock is held.
func (s *Server) listDeployments(c caller, query url.Values, namespace string) []*api.Deployment {
	out := []*api.Deployment{}
	for key, j := range s.jobs {
		if namespace != "*" && key.namespace != namespace || !c.may(key.namespace, "read-job") || j.deployment == nil || time.Now().Before(j.deployment.begin) {
			continue
		}
		d := &api.Deployment{
			ID: j.deployment.id, Namespace: key.namespace, JobID: key.id, JobVersion: j.version, JobCreateIndex: j.created, JobModifyIndex: j.specModified, JobSpecModifyIndex: j.specModified,
			CreateTime: j.deployment.begin.UnixNano(), Status: "running", StatusDescription: "Deployment is running",
		}
		switch {
		case j.deployment.end.IsZero():
			d.StatusDescription = "Deployment is running but requires manual promotion"
		case !j.deployment.active(time.Now()):
			d.Status, d.StatusDescription = "successful", "Deployment completed successfully"
		}
		if matches(query.Get("filter"), d) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *api.Deployment) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// countPlaced sets the counts of a scale status. The lock is held.
func (s *Server) countPlaced(key jobKey, j *job, out *api.JobScaleStatusResponse) {
	if s.Placement == nil {
		return
	}
	for _, a := range j.allocations {
		stub := s.stub(key, j, a)
		if time.Now().Before(a.created.Add(deploymentDelay)) || stub.DesiredStatus != "run" || stub.ClientStatus != "running" && stub.ClientStatus != "pending" ||
			stub.DeploymentStatus != nil && stub.DeploymentStatus.Canary {
			continue
		}
		group := out.TaskGroups[a.group]
		group.Placed++
		if stub.ClientStatus == "running" {
			group.Running++
		}
		if stub.DeploymentStatus != nil && stub.DeploymentStatus.Healthy != nil && *stub.DeploymentStatus.Healthy {
			group.Healthy++
		}
		out.TaskGroups[a.group] = group
	}
}

// encode writes an answer as JSON, nothing for nil.
func encode(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) }
