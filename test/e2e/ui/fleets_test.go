//go:build linux

package ui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

const theFleet = "clusters/all/namespaces/shop/targets/web"

// memberOf is the fleet's member in a cluster.
func memberOf(cluster string) string { return "clusters/" + cluster + "/namespaces/shop/targets/web" }

// storeFleet stores a fleet of three members, which are stale after a second and lost after three, without those that left it.
func (s *siteOf) storeFleet(t *testing.T, left ...string) {
	t.Helper()
	spec := request("web", "queue", 0).GetSpec()
	spec.MinReplicas, spec.MaxReplicas = proto.Int32(2), 30
	fleet := &setpointv1.FleetSpec{
		StaleAfter: durationpb.New(time.Second), LostAfter: durationpb.New(3 * time.Second), SurviveOne: true,
		Scopes: map[string]string{"External:queue": "PER_MEMBER"},
	}
	for _, cluster := range []string{"east", "north", "west"} {
		fleet.Members = append(fleet.Members, &setpointv1.FleetMember{Target: memberOf(cluster), Drained: cluster == "north"})
	}
	fleet.Members[2].Weight = proto.Int32(2)
	fleet.Members = slices.DeleteFunc(fleet.Members, func(m *setpointv1.FleetMember) bool { return slices.Contains(left, m.GetTarget()) })
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
		Name: theFleet, TargetSpec: &setpointv1.TargetSpec{Spec: spec, Period: durationpb.New(time.Second), Fleet: fleet},
	}); err != nil {
		t.Fatal(err)
	}
}

// calls has a member call three times a second, with a load, and do as it is told, until the test ends or the function that
// it returns is called.
func (s *siteOf) calls(t *testing.T, cluster string, load int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var fed sync.WaitGroup
	fed.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		r := request("web", "queue", load)
		r.Target, r.Fleet, r.Spec.MaxReplicas = memberOf(cluster), theFleet, 30
		for ctx.Err() == nil {
			if answer, err := s.Recommendations().Recommend(ctx, r); err == nil {
				r.Scale.SpecReplicas, r.Scale.StatusReplicas = answer.GetDesiredReplicas(), proto.Int32(answer.GetDesiredReplicas())
			} else if ctx.Err() == nil {
				t.Errorf("%s: %v", cluster, err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); fed.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// member is an expression of what the page says in the columns of a member.
func member(cluster string) string {
	return `[...document.querySelectorAll("table.members tbody tr")].find(r => r.querySelector("a").innerText === "` + cluster + `")?.innerText`
}

// fleetAgrees waits until a fleet's page shows the service's numbers.
func (p *page) fleetAgrees(s *siteOf, name string) {
	p.t.Helper()
	p.wait("the fleet's members", `document.querySelector("table.members tbody tr")`)
	kit.Eventually(p.t, process.Patience, "the numbers of "+name, func() error {
		answer, err := setpointv1.NewFleetServiceClient(s.Conn()).GetFleet(p.t.Context(), &setpointv1.GetFleetRequest{Name: name})
		fatal.If(p.t, err)
		fleet := answer.GetFleet()
		want := []string{fmt.Sprint(fleet.GetDesiredReplicas()), fmt.Sprintf("%d desired", fleet.GetDesiredReplicas()), fmt.Sprintf("%d shared out", fleet.GetShareTotal()), fmt.Sprintf("%d unplaced", fleet.GetUnplacedReplicas()),
			fmt.Sprintf("%d missing without the largest member", fleet.GetMissingReplicas())}
		for _, m := range fleet.GetMembers() {
			share := "none yet"
			if m.Share != nil {
				share = fmt.Sprint(m.GetShare())
			}
			want = append(want, m.GetTarget()+" "+share)
		}
		got := eval[[]string](p, `[
			document.querySelector(".big .count").innerText,
			...[...document.querySelectorAll(".figure")].map(e => e.innerText.replace(/\s+/g, " ")),
			...[...document.querySelectorAll("table.members tbody tr")].map(r => r.querySelector("a").title + " " + r.querySelector("strong").innerText),
		]`)
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("it shows %q, the service says %q", got, want)
		}
		return nil
	})
}

// A fleet from before its first call to the loss of a member: what nobody told is unknown, counts are the service's, and a state is
// a word.
func TestAFleetOnThePage(t *testing.T) {
	s := site(t)
	s.storeFleet(t)
	p := s.blank(t)
	p.expects("status of 404 .*/v1/" + theFleet + "$") // of the target's record, which a fleet has not, nor its members: of those the page knows it
	p.size(1280, 900)
	p.goTo("/ui/" + theFleet)
	p.wait("at the fleet's view", `location.pathname === "/ui/`+theFleet+`/fleet"`)
	p.waitText("not decided yet, 2 to 30 allowed")
	p.wait("nothing is invented", `document.querySelector(".big .count").innerText === "?" && [...document.querySelectorAll(".figure strong")].every(e => e.innerText === "?")`)
	for _, cluster := range []string{"east", "north", "west"} {
		p.wait(cluster+" never called", member(cluster)+`.replace(/\s+/g, " ").includes("Unseen") && `+member(cluster)+`.includes("none yet") && `+member(cluster)+`.trim().endsWith("never")`)
	}
	p.accessible()
	p.screenshot("fleet-new")

	stopWest := s.calls(t, "west", 120)
	stop := s.calls(t, "east", 60)
	p.wait("18 decided", `document.querySelector(".big .count").innerText === "18"`)
	p.wait("fresh members", member("west")+`.includes("Fresh") && `+member("east")+`.includes("Fresh")`)
	p.fleetAgrees(s, theFleet)
	p.wait("the service's words", `document.querySelector(".side-column").innerText.includes("ValidMetricFound")`)
	p.wait("the log's decisions", `document.querySelector("button.decision") !== null`)

	if _, err := setpointv1.NewOverrideServiceClient(s.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{
		Parent: theFleet, OverrideId: "freeze", Override: &setpointv1.Override{Hold: true, Reason: "a freeze", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))},
	}); err != nil {
		t.Fatal(err)
	}
	p.wait("what holds the fleet", `document.querySelector(".overrides-card")?.innerText.includes("a freeze") && document.querySelector(".overrides-card").innerText.includes("Hold or limit")`)
	p.wait("that it began, among the changes", `document.querySelector(".decision-list").innerText.includes("Override begins")`)

	stop()
	p.wait("a lost member", member("east")+`.includes("Lost") && document.querySelector(".chips").innerText.includes("1 lost")`)
	p.accessible()
	p.screenshot("fleet-lost")
	p.size(390, 844)
	if got := eval[[]int](p, `[document.documentElement.scrollWidth, document.querySelector("main").scrollWidth]`); got[0] > 390 || got[1] > 390 {
		t.Errorf("on a phone the page is %d, its content %d of 390 wide", got[0], got[1])
	}
	p.size(1280, 900)
	stopWest()
	p.wait("that nobody asks", `document.querySelector(".chips").innerText.includes("Not asked")`)

	// By the keyboard to a member, which has decisions and no record of its own.
	p.tabTo(`table.members a[title="` + memberOf("west") + `"]`)
	p.press(kb.Enter)
	p.wait("at the member", `location.pathname === "/ui/`+memberOf("west")+`"`)
	p.waitText("its fleet decides for it")
	p.accessible()
}

// Stored fleets are listed, found by their members, and the row of one that decided leads to it.
func TestFleetsAreListed(t *testing.T) {
	s := site(t)
	s.storeFleet(t)
	p := s.blank(t)
	p.goTo("/ui/") // fleets and members have no record, and the page asks for none: no answer is 404
	p.waitText("No targets yet")
	p.accessible()
	p.tabTo(`a[href="/ui/?fleets="]`)
	p.press(kb.Enter)
	p.waitText("1 fleet.")
	p.waitText("3 members, 1 drained · 2 to 30 replicas of all")
	p.waitText("Not decided yet: 3 unseen, 1 drained.")
	stopWest, stopEast := s.calls(t, "west", 120), s.calls(t, "east", 60)
	p.goTo("/ui/?q=north&fleets=")
	p.wait("found by a member", `document.querySelectorAll(".listed-fleets .override").length === 1`)
	p.wait("with its count and what is the matter", `document.querySelector(".listed-fleets .override")?.innerText.replace(/\s+/g, " ").includes("1 unseen") && /[0-9]+ desired, [0-9]+ shared out · 2 fresh, 1 unseen, 1 drained · decided (just now|[0-9]+ s ago)/.test(document.querySelector(".listed-fleets").innerText)`)
	p.goTo("/ui/?q=nobody&fleets=")
	p.waitText("0 fleets of 1.")
	p.goTo("/ui/?sort=name")
	p.wait("a row of the fleet", `[...document.querySelectorAll(".row")].some(r => r.querySelector("a").textContent === "web fleet" && r.innerText.includes("2 to 30"))`)
	p.accessible()
	p.click(`.row a[title="` + memberOf("west") + `"]`)
	p.waitText("its fleet decides for it")
	p.wait("whether its decisions arrive", `document.querySelector(".crumbs .is-live")`)
	p.wait("the way to its fleet", `document.querySelector('a[href="/ui/`+theFleet+`/fleet"]')`)
	p.goTo("/ui/?sort=name")
	stopEast()
	p.wait("a silent member", `[...document.querySelectorAll(".row")].find(r => r.innerText.includes("east"))?.innerText.includes("Not asked") && [...document.querySelectorAll(".row")].find(r => r.querySelector(".tag"))?.innerText.includes("Not asked") === false`)
	// Of who is no member any more nothing is known.
	p.expects("status of 404")
	s.storeFleet(t, memberOf("east"))
	p.wait("a former member goes", `![...document.querySelectorAll(".row")].some(r => r.innerText.includes("east")) && [...document.querySelectorAll(".row")].some(r => r.innerText.includes("west"))`)
	stopWest()
	p.wait("a silent fleet", `[...document.querySelectorAll(".row")].every(r => r.innerText.includes("Not asked"))`)
	p.click(`.row a[href$="/fleet"]`)
	p.wait("at the fleet", `location.pathname === "/ui/`+theFleet+`/fleet"`)
	p.waitText("2 members scaled as one")
}

// The longest names, and as many members as there may be, push nothing out of the page.
func TestAGiantFleet(t *testing.T) {
	s := site(t)
	long := strings.Repeat("n", 150) // the name of a member has 512 bytes at most
	name := fmt.Sprintf("clusters/%[1]s/namespaces/%[1]s/targets/%[1]s", long)
	fleet := &setpointv1.FleetSpec{Scopes: map[string]string{"External:queue": "GLOBAL"}}
	for i := range 64 {
		fleet.Members = append(fleet.Members, &setpointv1.FleetMember{Target: fmt.Sprintf("clusters/%[1]s%02[2]d/namespaces/%[1]s/targets/%[1]s", long, i)})
	}
	if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
		Name: name, TargetSpec: &setpointv1.TargetSpec{Spec: request("web", "queue", 0).GetSpec(), Fleet: fleet},
	}); err != nil {
		t.Fatal(err)
	}
	p := s.blank(t)
	p.expects("status of 404")
	for _, path := range []string{"/ui/" + name + "/fleet", "/ui/?fleets="} {
		for _, width := range []int64{1280, 390} {
			p.size(width, 844)
			p.goTo(path)
			p.waitText("64 members")
			if got := eval[[]int](p, `[document.documentElement.scrollWidth, innerWidth, document.querySelector("main").scrollWidth, document.querySelector("main").clientWidth]`); got[0] > got[1] || got[2] > got[3] {
				t.Errorf("%.20s… at %d: the page is %d of %d wide, its content %d of %d", path, width, got[0], got[1], got[2], got[3])
			}
		}
	}
	p.accessible()
}
