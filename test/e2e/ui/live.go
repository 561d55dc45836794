//go:build linux

package ui

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Live is what agents have a service decide about, and its page shows.
type Live struct {
	*service.Instance
	// Has are words of the states that targets have to be in, by the targets' own names; "": any.
	Has map[string]string
	// Fleets are the names of its fleets.
	Fleets []string
	// Moves reports whether a target's load changes while the page is read; nil: none does.
	Moves func(name string) bool
	// Comes are targets, by name, of which changes come once their functions change their loads: some are seen on the page
	// before they come.
	Comes map[string]func()
	// Picture names the pictures that are kept of the list.
	Picture string
}

// Require skips a test, or fails it in CI, without Chromium, before it has done anything else. The browser ends with the test.
func Require(t *testing.T) {
	t.Helper()
	t.Cleanup(endBrowser)
	if _, err := browser(); errors.Is(err, errNoChromium) {
		kit.Cannot(t, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
}

// Compare reads all of a service's page in Chromium while agents go on, and compares each number with the service's answer
// at that instant: the list, its groups, each target and each fleet. What the page says will come must come. One test of a
// process can do so, after Require.
func Compare(t *testing.T, l Live) {
	t.Helper()
	s := &siteOf{Instance: l.Instance, origin: "http://" + l.RESTAddr()}
	p := s.blank(t)
	p.expects("status of 404") // of the records that fleets and their members have not
	p.keepsAnswers()
	high := func() { p.size(1700, int64(800+48*(len(l.Has)+8*len(l.Fleets)))) } // so that every row is there
	high()
	began := time.Now()
	step := func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
		began = time.Now()
	}
	p.goTo("/ui/")
	l.list(p, s)
	p.light()
	p.accessible()
	p.screenshot(l.Picture)
	high()
	step("the list")
	for _, by := range []string{"cluster", "namespace"} {
		p.goTo("/ui/?group=" + by)
		l.groups(p, s, by)
	}
	step("its groups")
	p.size(1280, 1000)
	seen := l.targets(p, s)
	step(fmt.Sprintf("%d targets", len(seen)))
	for _, name := range l.Fleets {
		p.goTo("/ui/" + name + "/fleet")
		p.fleetAgrees(s, name)
		p.accessible()
	}
	step("its fleets")
	maps.Copy(seen, l.moving(p, s))
	step("what comes")
	l.came(t, s, seen)
	step("what came")
}

// listed are the service's targets with their specs.
func (s *siteOf) listed(t *testing.T) map[string]*setpointv1.Target {
	t.Helper()
	all := make(map[string]*setpointv1.Target)
	for token := ""; ; {
		list, err := s.Targets().ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", PageSize: 1000, PageToken: token, WithSpecInUse: true})
		fatal.If(t, err)
		for _, target := range list.GetTargets() {
			all[target.GetName()] = target
			if basis := target.GetLastDecision().GetBasis(); basis != nil && len(target.GetSpecInUse().GetStages().GetSchedules()) > 0 {
				// A schedule moves the bounds, which only the outlook tells.
				got, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: target.GetName()})
				fatal.If(t, err)
				now := got.GetTarget().GetOutlook().GetBounds()[0]
				basis.MinReplicas, basis.MaxReplicas = &now.MinReplicas, &now.MaxReplicas
			}
		}
		if token = list.GetNextPageToken(); token == "" {
			return all
		}
	}
}

func short(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// list compares the rows: what they show is right at most instants, and all states are there.
func (l *Live) list(p *page, s *siteOf) {
	p.t.Helper()
	const samples = 8
	agreed, last, asked := make(map[string]int), make(map[string]string), make(map[string]time.Duration)
	missing := func() (names []string) {
		for name := range s.listed(p.t) {
			if agreed[name] == 0 {
				names = append(names, name)
			}
		}
		return names
	}
	for n, deadline := 0, time.Now().Add(process.Patience); n < samples; {
		before := s.listed(p.t)
		rows := eval[[]listRow](p, shownRows)
		times := eval[map[string]string](p, `Object.fromEntries([...document.querySelectorAll(".row:not(.group)")].map(r => [r.querySelector(".c-name a").title, r.querySelector(".c-updated time")?.dateTime ?? ""]))`)
		now, after := time.Now(), s.listed(p.t)
		for _, row := range rows {
			target := after[row.Name]
			if target == nil {
				continue // a fleet or a member of one
			}
			wrong := row.differs(of(target, now))
			if one := before[row.Name]; wrong != "" && one != nil && row.differs(of(one, now)) == "" {
				wrong = ""
			}
			if told, err := time.Parse(time.RFC3339, times[row.Name]); err == nil {
				asked[row.Name] = target.GetUpdateTime().AsTime().Sub(told)
			}
			if wrong == "" {
				agreed[row.Name]++
			} else {
				last[row.Name] = wrong
			}
		}
		if late := time.Now().After(deadline); n > 0 || len(missing()) == 0 || late {
			n++
			if late && n == 1 {
				n = samples
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	longest, whose := time.Duration(0), ""
	for name := range s.listed(p.t) {
		if 2*agreed[name] < samples {
			p.t.Errorf("%s: right at %d instants, at last: %s", name, agreed[name], last[name])
		}
		if asked[name] > longest {
			longest, whose = asked[name], name
		}
	}
	p.t.Logf("when a target was asked for last is shown %s late at most, of %s", longest.Round(100*time.Millisecond), short(whose))
	for _, row := range eval[[]listRow](p, shownRows) {
		has, ok := l.Has[short(row.Name)]
		if ok && has != "" && !slices.Contains(row.States, has) {
			p.t.Errorf("%s is %q, want %s", row.Name, row.States, has)
		}
	}
	for name, has := range l.Has {
		there := eval[bool](p, `[...document.querySelectorAll(".row .c-name a")].some(a => a.title.endsWith("/`+name+`"))`)
		if want := has != Absent; there != want {
			p.t.Errorf("%s is in the list: %t, want %t", name, there, want)
		}
	}
}

// Absent is the state of a target that the page must not have.
const Absent = "absent"

// light compares what comes over the wire with the promise, and tells when there was something to see.
func (p *page) light() {
	p.t.Helper()
	type loaded struct{ Wire, Paint float64 }
	got := eval[loaded](p, `(() => {
		const files = performance.getEntriesByType("resource").filter(r => new URL(r.name).pathname.startsWith("/ui/"));
		return {
			Wire: files.reduce((sum, r) => sum + r.transferSize, performance.getEntriesByType("navigation")[0].transferSize),
			Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
		};
	})()`)
	p.t.Logf("%.1f KiB over the wire before the page can be used; the first paint after %.0f ms", got.Wire/1024, got.Paint)
	if got.Wire <= 0 || got.Wire > 200<<10 {
		p.t.Errorf("%.0f bytes over the wire before the page can be used, at most 200 KiB", got.Wire)
	}
}

// sumsOf are a group's, of the service's targets.
func (l *Live) sumsOf(p *page, s *siteOf, by string) map[string]string {
	p.t.Helper()
	type sums struct{ targets, replicas, wanted, unknown, broken int }
	all := make(map[string]*sums)
	add := func(name string) *sums {
		parts := strings.Split(name, "/")
		key := parts[1]
		if by == "namespace" {
			key += "/" + parts[3]
		}
		if all[key] == nil {
			all[key] = &sums{}
		}
		return all[key]
	}
	now := time.Now()
	for name, target := range s.listed(p.t) {
		g := add(name)
		if strings.HasSuffix(name, ".-shadow") {
			continue // it changes nothing
		}
		last := target.GetLastDecision()
		g.targets++
		if now.After(target.GetNotAskedTime().AsTime()) || slices.ContainsFunc(last.GetStates(), func(w string) bool {
			return slices.Contains([]string{"SCALE_UNREADABLE", "INVALID", "METRICS_FAILING", "UPDATE_FAILED"}, w)
		}) {
			g.broken++
		}
		if slices.Contains(last.GetStates(), "SCALE_UNREADABLE") {
			g.unknown++
			continue
		}
		g.replicas += int(target.GetStatus().GetCurrentReplicas())
		if basis := last.GetBasis(); basis != nil && basis.Proposal != nil {
			g.wanted += int(basis.GetProposal())
		} else {
			g.wanted += int(last.GetDesiredReplicas())
		}
	}
	for _, name := range l.Fleets {
		add(name) // whose replicas are the members'
		for _, m := range s.fleet(p.t, name).GetMembers() {
			if m.GetLastCallTime() != nil {
				g := add(m.GetTarget())
				g.targets++
				g.replicas += int(m.GetSpecReplicas())
				g.wanted += int(m.GetShare())
			}
		}
	}
	texts := make(map[string]string)
	for key, g := range all {
		plural := func(n int, what string) string {
			if n != 1 {
				what += "s"
			}
			return fmt.Sprintf("%d %s", n, what)
		}
		text := plural(g.targets, "target") + " · " + plural(g.replicas, "replica")
		if g.unknown > 0 {
			text += " and those of " + plural(g.unknown, "target") + " that nobody knows"
		}
		if g.wanted != g.replicas {
			text += fmt.Sprintf(" · the metrics ask for %d", g.wanted)
		}
		if g.broken > 0 {
			text += fmt.Sprintf(" · %d failing or not asked", g.broken)
		}
		texts[key] = text
	}
	return texts
}

// groups compares the sums of groups.
func (l *Live) groups(p *page, s *siteOf, by string) {
	p.t.Helper()
	right := make(map[string]bool)
	kit.Eventually(p.t, process.Patience, "sums by "+by, func() error {
		before := l.sumsOf(p, s, by)
		got := eval[map[string]string](p, `Object.fromEntries([...document.querySelectorAll(".row.group")].map(r => [r.querySelector("strong").innerText, r.querySelector(".sums").innerText]))`)
		after := l.sumsOf(p, s, by)
		var wrong []string
		for key, want := range after {
			if got[key] == want || got[key] == before[key] {
				right[key] = true
			} else if !right[key] {
				wrong = append(wrong, fmt.Sprintf("%s: the page %q, the service %q", key, got[key], want))
			}
		}
		if len(wrong) > 0 || len(got) != len(after) {
			return fmt.Errorf("%d groups of %d: %s", len(got), len(after), strings.Join(wrong, "; "))
		}
		return nil
	})
}

// targets compares targets' pages with the answer that they were drawn from, and that with the service's before and after: one
// of each state, as a page takes seconds; all with FULL=1.
func (l *Live) targets(p *page, s *siteOf) map[string]*setpointv1.Target {
	p.t.Helper()
	seen, looked, foreseen := make(map[string]*setpointv1.Target), make(map[string]bool), 0
	for name, known := range s.listed(p.t) {
		state := of(known, time.Now()).States[0]
		if looked[state] && os.Getenv("FULL") == "" {
			continue
		}
		get := func() *setpointv1.Target {
			got, err := s.Targets().GetTarget(p.t.Context(), &setpointv1.GetTargetRequest{Name: name})
			fatal.If(p.t, err)
			return got.GetTarget()
		}
		before := get()
		p.goTo("/ui/" + name)
		shown, _ := p.agrees()
		after := get()
		seen[name] = shown
		if shown.GetName() != name {
			p.t.Errorf("%s: drawn from the answer about %s", name, shown.GetName())
			continue
		}
		if foresees(p.t, shown) {
			foreseen++
		}
		at := shown.GetUpdateTime().AsTime()
		if at.Before(before.GetUpdateTime().AsTime()) || at.After(after.GetUpdateTime().AsTime()) {
			p.t.Errorf("%s: the page is of %s, the service knew %s before and %s after", name, at, before.GetUpdateTime().AsTime(), after.GetUpdateTime().AsTime())
		}
		for _, told := range []*setpointv1.Target{before, after} {
			// Nor has it been settled between the two: its scale event takes the place of one that counts no more.
			if last, of := told.GetLastDecision(), shown.GetLastDecision(); told.GetUpdateTime().AsTime().Equal(at) && last.GetRecommendationId() == of.GetRecommendationId() && last.GetOutcome() == of.GetOutcome() && !proto.Equal(told.GetExplanation(), shown.GetExplanation()) {
				p.t.Errorf("%s: the page explains\n%v, the service\n%v", name, shown.GetExplanation(), told.GetExplanation())
			}
		}
		// Each state once: it takes a second of a processor, and more where others want it.
		if !looked[state] {
			looked[state] = true
			p.accessible()
		}
	}
	p.t.Logf("the engine decides by itself what %d of %d pages say will come", foreseen, len(seen))
	return seen
}

// fleet is the service's answer about one.
func (s *siteOf) fleet(t *testing.T, name string) *setpointv1.Fleet {
	t.Helper()
	answer, err := setpointv1.NewFleetServiceClient(s.Conn()).GetFleet(t.Context(), &setpointv1.GetFleetRequest{Name: name})
	fatal.If(t, err)
	return answer.GetFleet()
}

// fleetAgrees waits until a fleet's page shows the service's numbers.
func (p *page) fleetAgrees(s *siteOf, name string) {
	p.t.Helper()
	p.wait("the fleet's members", `document.querySelector("table.members tbody tr")`)
	kit.Eventually(p.t, process.Patience, "the numbers of "+name, func() error {
		before := s.fleet(p.t, name)
		type shown struct {
			Count, Figures string
			Shares         map[string]string
		}
		got := eval[shown](p, `({
			Count: document.querySelector(".big .count").innerText,
			Figures: [...document.querySelectorAll(".figure")].map(e => e.innerText.replace(/\s+/g, " ")).join("; "),
			Shares: Object.fromEntries([...document.querySelectorAll("table.members tbody tr")].map(r => [r.querySelector("a").title, r.querySelector("strong").innerText])),
		})`)
		var wrong []string
		for _, fleet := range []*setpointv1.Fleet{before, s.fleet(p.t, name)} {
			wrong = nil
			is := func(what, got, want string) {
				if got != want {
					wrong = append(wrong, fmt.Sprintf("%s: it shows %q, the service says %q", what, got, want))
				}
			}
			is("the count", got.Count, fmt.Sprint(fleet.GetDesiredReplicas()))
			figures := fmt.Sprintf("%d desired; %d shared out; %d unplaced", fleet.GetDesiredReplicas(), fleet.GetShareTotal(), fleet.GetUnplacedReplicas())
			if fleet.GetSpec().GetSurviveOne() {
				figures += fmt.Sprintf("; %d missing without the largest member", fleet.GetMissingReplicas())
			}
			is("the counts", got.Figures, figures)
			for _, m := range fleet.GetMembers() {
				share := "none yet"
				if m.Share != nil {
					share = fmt.Sprint(m.GetShare())
				}
				is(m.GetTarget(), got.Shares[m.GetTarget()], share)
			}
			if wrong == nil {
				return nil
			}
		}
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	})
}
