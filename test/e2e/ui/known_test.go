//go:build linux

package ui

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// inAllStates feeds a target for each state, by the state's name.
func inAllStates(t *testing.T, s *siteOf) {
	t.Helper()
	now := time.Now()
	none := int32(0)
	// Each is asked for every 15 s, the last time just now; change makes of a call what it is about.
	feed := func(name string, calls int, ended time.Duration, change func(i int, r *setpointv1.RecommendRequest)) {
		replicas := int32(3)
		for i := range calls {
			r := request(name, "queue", 30)
			r.EvaluationTime = timestamppb.New(now.Add(-ended - time.Duration(calls-1-i)*15*time.Second))
			r.Scale.SpecReplicas, r.Scale.StatusReplicas = replicas, &replicas
			change(i, r)
			if scale := r.GetScale(); scale != nil {
				scale.StatusReplicas = &scale.SpecReplicas
			}
			replicas = recommend(t, s, r).GetDesiredReplicas()
		}
	}
	feed("steady", 3, 0, func(int, *setpointv1.RecommendRequest) {})
	feed("dead", 3, 50*time.Minute, func(int, *setpointv1.RecommendRequest) {})
	feed("maximum", 3, 0, func(_ int, r *setpointv1.RecommendRequest) {
		r.Scale.SpecReplicas, r.ExternalMetrics[0].Value = 12, "300"
	})
	feed("minimum", 3, 0, func(_ int, r *setpointv1.RecommendRequest) {
		r.Spec.MinReplicas, r.ExternalMetrics[0].Value = new(int32(3)), "10"
		r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &none}}
	})
	feed("limited", 3, 0, func(_ int, r *setpointv1.RecommendRequest) {
		r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 600}}}}
		r.ExternalMetrics[0].Value = "90"
	})
	feed("failing", 3, 0, func(_ int, r *setpointv1.RecommendRequest) {
		r.Scale.SpecReplicas, r.ExternalMetrics = 4, nil
		r.MetricErrors = []*setpointv1.MetricError{{Metric: "queue", Message: "the queue is away"}}
	})
	feed("unreadable", 3, 0, func(_ int, r *setpointv1.RecommendRequest) {
		r.Scale, r.ExternalMetrics, r.ScaleError = nil, nil, &setpointv1.ScaleError{Message: "deployments.apps \"web\" not found"}
	})
	feed("disabled", 3, 0, func(_ int, r *setpointv1.RecommendRequest) { r.Scale.SpecReplicas = 0 })
	feed("held", 3, 0, func(i int, r *setpointv1.RecommendRequest) {
		r.ExternalMetrics[0].Value = []string{"30", "60", "20"}[i]
	})
	feed("flapping", 8, 0, func(i int, r *setpointv1.RecommendRequest) {
		r.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &none}}
		r.ExternalMetrics[0].Value = []string{"60", "20"}[i%2]
	})
	refused := request("refused", "queue", 60)
	answer := recommend(t, s, refused)
	if _, err := s.Recommendations().ReportScale(t.Context(), &setpointv1.ReportScaleRequest{
		Target: refused.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "FAILED", Message: "exceeded quota",
	}); err != nil {
		t.Fatal(err)
	}
}

// Every number and state of the list is the service's, and what it does not know is not shown: no 0
// that nobody decided, no steady target that nobody asks for, no failing metric where a change was
// refused. The most urgent comes first.
func TestTheListShowsWhatIsKnown(t *testing.T) {
	s := site(t, "--allow-evaluation-time", "--ui-links=Grafana=https://grafana.example/d/hpa?var-target={target}&var-cluster={cluster}")
	inAllStates(t, s)
	p := s.blank(t)
	p.size(1600, 1000)
	p.goTo("/ui/")
	p.waitText("11 targets")
	list, err := s.Targets().ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", PageSize: 100, WithSpecInUse: true})
	fatal.If(t, err)
	wanted := make(map[string]listRow)
	for _, target := range list.GetTargets() {
		wanted[target.GetName()] = of(target, time.Now())
	}
	var rows []listRow
	var wrong []string
	// A row's bounds and aims come after its counts: with the specs.
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(100 * time.Millisecond) {
		rows, wrong = eval[[]listRow](p, shownRows), nil
		for _, row := range rows {
			if differs := row.differs(wanted[row.Name]); differs != "" {
				wrong = append(wrong, differs)
			}
		}
		if len(rows) == 11 && len(wrong) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d rows; %s", len(rows), strings.Join(wrong, "\n"))
			break
		}
	}
	if len(rows) != 11 || short(rows[0].Name) != "dead" || short(rows[1].Name) != "unreadable" || short(rows[10].Name) != "steady" {
		t.Errorf("the order is %q", rows)
	}
	// What nobody knows since 50 minutes is not drawn.
	p.wait("the line of the first", `document.querySelector("#row-0 .spark circle") !== null`)
	if cx, _ := strconv.ParseFloat(eval[string](p, `document.querySelector("#row-0 .spark circle").getAttribute("cx")`), 64); cx < 10 || cx > 30 {
		t.Errorf("the line of a target that nobody asked for since 50 minutes ends at %g of 128 pixels of the last hour", cx)
	}
	for name, why := range map[string]string{"dead": "Nobody asks", "refused": "could not be applied", "failing": "the queue is away", "unreadable": "can't be read"} {
		if i := slices.IndexFunc(rows, func(r listRow) bool { return short(r.Name) == name }); i < 0 || !strings.Contains(rows[i].Why, why) {
			t.Errorf("of %s it says %q, want %q", name, rows[max(0, i)].Why, why)
		}
	}
	for state, n := range map[string]int{"not-asked": 1, "failing": 1, "unreadable": 1, "refused": 1, "max": 1, "limited": 1, "flapping": 1, "held": 1} {
		p.wait(fmt.Sprintf("%d %s", n, state), fmt.Sprintf(`document.querySelector(".tile.is-%s .tile-count").innerText === "%d"`, state, n))
	}
	if to := eval[string](p, `document.querySelector(".row .elsewhere").href`); to != "https://grafana.example/d/hpa?var-target=dead&var-cluster=demo" {
		t.Errorf("the link leads to %s", to)
	}
	p.accessible()
	p.size(1280, 1000)
	p.wait("nothing cut off", `[...document.querySelectorAll(".row .c-name")].every(e => e.offsetHeight <= 48) && [...document.querySelectorAll(".grid-head > div")].every(e => e.offsetHeight <= 36) && [...document.querySelectorAll(".tile")].every(e => e.scrollWidth <= e.clientWidth)`)
	p.screenshot("targets-states")

	// Groups sum what is known.
	p.size(1280, 1000)
	p.goTo("/ui/?group=cluster")
	p.waitText("11 targets · ")
	replicas := 0
	for _, w := range wanted {
		n, _ := strconv.Atoi(w.Counts[0])
		replicas += n
	}
	p.waitText(fmt.Sprintf("%d replicas and those of 1 target that nobody knows", replicas))
	p.accessible()
	eval[int](p, downloads)
	p.click(`.toolbar button[title$="spreadsheet"]`)
	if lines := strings.Split(strings.TrimSpace(p.saved("targets.csv")), "\r\n"); len(lines) != 12 || !strings.HasPrefix(lines[1], "demo,shop,dead,,not-asked,3,3,1,12,") {
		t.Errorf("the CSV is %q", lines)
	}

	// The longest chips have room.
	held := request("flapping", "queue", 30)
	if _, err := setpointv1.NewOverrideServiceClient(s.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{
		Parent: held.GetTarget(), Override: &setpointv1.Override{Hold: true, Reason: "migration", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))},
	}); err != nil {
		t.Fatal(err)
	}
	recommend(t, s, held)
	for _, width := range []int64{1280, 390} {
		p.size(width, 800)
		p.goTo("/ui/?q=flapping")
		p.wait("two chips", `document.querySelectorAll("#row-0 .chip").length > 1`)
		p.wait("both whole", `((e) => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight && e.offsetHeight <= 48)(document.querySelector("#row-0 .c-state"))`)
	}
}

// A phone shows every view at its width, and of a target also what was read, and why.
func TestAPhone(t *testing.T) {
	s := site(t)
	s.feed(t, 5, "")
	p := s.blank(t)
	p.size(390, 844)
	for path, text := range map[string]string{"/ui/": "5 targets", "/ui/operations": "Callers", "/ui/clusters/demo/namespaces/shop/targets/web-00": "web-00", "/ui/playground": "Playground"} {
		p.goTo(path)
		p.waitText(text)
		if path == "/ui/operations" {
			p.waitText("Serving")
		}
		for _, width := range []int64{320, 390} {
			p.size(width, 844)
			if got := eval[[]int64](p, `[document.documentElement.scrollWidth, document.querySelector("main").scrollWidth, Math.ceil(document.querySelector(".bar-end").getBoundingClientRect().right)]`); slices.Max(got) > width {
				t.Errorf("%s at %d: the page is %d wide, its content %d, its bar %d", path, width, got[0], got[1], got[2])
			}
		}
		p.accessible()
	}
	// What stands beside charts stays beside them.
	six := request("six", "queue", 60)
	for len(six.GetSpec().GetMetrics()) < 6 {
		six.Spec.Metrics = append(six.Spec.Metrics, six.GetSpec().GetMetrics()[0])
	}
	of := six.GetSpec().GetMetrics()[0].GetExternal()
	of.Target = &setpointv1.MetricTarget{Type: "Value", Value: proto.String("20")}
	for i := range 6 { // not as many as the count says, so that nobody knows what comes of a change
		six.Pods = append(six.Pods, &setpointv1.Pod{Name: strconv.Itoa(i), Phase: "Running", Ready: &setpointv1.PodReadyCondition{Status: "True"}})
	}
	recommend(t, s, six)
	p.goTo("/ui/" + six.GetTarget())
	p.wait("further metrics below the charts", `[...document.querySelectorAll(".main-column > p")].some(e => e.innerText.startsWith("2 more metrics") && e.getBoundingClientRect().top > document.querySelector(".chart").getBoundingClientRect().top)`)
	p.wait("where the outlook ends, in one sentence", `/^Nothing is known from /.test(document.querySelector(".releases .faint > span:only-child")?.innerText)`)
	p.goTo("/ui/")
	p.waitText("per replica")
	p.wait("a reading and a reason", `document.querySelector(".row .c-metric").offsetHeight > 0 && document.querySelector(".row .c-why").offsetHeight > 0`)
	p.screenshot("phone")
	p.size(320, 844)
	if cut := eval[string](p, `(() => {
		const cell = document.querySelector(".row .c-state");
		cell.innerHTML = ["<i>≈</i>Rate limited", "<i>⇅</i>Flapping", "+2"].map((words) => '<span class="chip">' + words + "</span>").join("");
		return [...cell.children].filter((chip) => {
			const range = document.createRange(), of = chip.getBoundingClientRect();
			range.selectNodeContents(chip.lastChild);
			const word = range.getBoundingClientRect();
			return word.top < of.bottom && word.right > of.right || of.right > cell.getBoundingClientRect().right;
		}).map((chip) => chip.innerText).join();
	})()`); cut != "" {
		t.Errorf("at 320 words are cut: %s", cut)
	}
}

// The line of the last hour is drawn once the log was read: what the stream repeats of it until then would end in a count of the past.
func TestALineIsOfTheWholeHour(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	for i, load := range []int{30, 90, 30} {
		r := request("web-00", "queue", load)
		r.EvaluationTime = timestamppb.New(time.Now().Add(time.Duration(i-3) * 10 * time.Minute))
		recommend(t, s, r)
	}
	p := s.blank(t)
	p.before(`{
		const real = fetch;
		const answer = new Promise((resolve) => window.answer = resolve);
		window.fetch = async (to, init) => (String(to.url ?? to).includes("/decisions?") && await answer, real(to, init));
	}`)
	p.goTo("/ui/")
	p.waitText("Live")
	p.waitText("per replica")
	time.Sleep(time.Second) // in which the stream has repeated all
	if eval[bool](p, `document.querySelector(".spark .line") !== null`) {
		t.Error("a line is drawn before the log was read")
	}
	eval[int](p, `(answer(), 0)`)
	p.wait("the line", `document.querySelector(".spark .line") !== null`)
}

// On a narrow phone the name of a target has the width of the page, and its count is below it.
func TestANameIsNotSqueezed(t *testing.T) {
	s := site(t)
	recommend(t, s, request("checkout-of-the-shop", "queue", 30))
	p := s.blank(t)
	p.size(320, 800)
	p.goTo("/ui/clusters/demo/namespaces/shop/targets/checkout-of-the-shop")
	p.wait("below each other", `document.querySelector(".big")?.getBoundingClientRect().top >= document.querySelector(".target-title")?.getBoundingClientRect().bottom`)
	p.wait("in one line", `document.querySelector(".target-title h1").getBoundingClientRect().height < 50`)
}

// Where a reader's own colours take the place of the page's, as contrast themes do, it can be seen what is chosen, where the
// keyboard is, and what a colour stands for.
func TestAReadersColours(t *testing.T) {
	s := site(t)
	s.feed(t, 5, "")
	p := s.blank(t)
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}})
	differ := func(what, one, other string) {
		t.Helper()
		const colour = `(e => e && getComputedStyle(e, e.matches("nav .tab") ? "::after" : null).backgroundColor)(document.querySelector(%q))`
		p.wait(what+" told apart", fmt.Sprintf(colour+` !== `+colour, one, other))
	}
	p.goTo("/ui/")
	p.waitText("5 targets")
	differ("tiles", `.tile[aria-pressed=true]`, `.tile[aria-pressed=false]`)
	differ("views", `nav .tab[aria-current]`, `nav .tab:not([aria-current])`)
	p.tabTo(".grid")
	differ("rows", `.row.active`, `.row:not(.active)`)
	differ("a stream", `.live i`, `main`)
	p.goTo(webPage)
	p.wait("the target", `document.querySelector("button.decision")`)
	differ("spans", `.segments [aria-pressed=true]`, `.segments [aria-pressed=false]`)
	p.click("button.decision")
	differ("decisions", `.decision[aria-pressed=true]`, `.decision[aria-pressed=false]`)
}

// On paper are all targets that are listed, with their states as text, and a target's page as wide as
// the sheet.
func TestPaper(t *testing.T) {
	s := site(t)
	s.feed(t, 80, "")
	p := s.open(t, "/ui/")
	p.waitText("80 targets")
	pdf := func() int {
		const mm = 1 / 25.4
		sheet := command(p, cdppage.PrintToPDF, cdppage.PrintToPDFParams{PaperWidth: 210 * mm, PaperHeight: 297 * mm})
		data, err := base64.StdEncoding.DecodeString(string(sheet.Data))
		if err != nil {
			data = sheet.Data
		}
		return strings.Count(string(data), "/Type /Page\n")
	}
	if pages := pdf(); pages < 2 {
		t.Errorf("the list of 80 targets is printed on %d pages", pages)
	}
	p.size(720, 1000) // a sheet between its margins
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	p.wait("all on paper", `document.querySelectorAll(".printed tbody tr").length === 80 && document.querySelector(".grid-box").offsetHeight === 0`)
	if text := p.text(); !strings.Contains(text, "web-79") || !strings.Contains(text, "At max") && !strings.Contains(text, "Held") {
		t.Errorf("on paper stands %s", text)
	}
	for _, path := range []string{"/ui/", "/ui/clusters/demo/namespaces/shop/targets/web-00", "/ui/operations"} {
		p.goTo(path)
		p.wait("shown", `document.querySelector(".printed, .page.target .chart canvas, .operations table")`)
		if got := eval[[]int](p, `[document.documentElement.scrollWidth, Math.floor(Math.max(...[...document.querySelectorAll("canvas, table")].map(e => e.getBoundingClientRect().right)))]`); got[0] > 720 || got[1] > 720 {
			t.Errorf("%s: on a sheet of 720 it is %d wide, what it has ends at %d", path, got[0], got[1])
		}
	}
}

// While the service is away nothing has a number.
func TestNothingIsKnownWhileTheServiceIsAway(t *testing.T) {
	s := site(t)
	p := s.blank(t)
	command(p, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `{
		const real = fetch;
		window.fetch = (to, init) => window.away === false || !String(to.url ?? to).includes("/v1/") ? real(to, init) : Promise.reject(new TypeError("away"));
	}`})
	p.goTo("/ui/")
	p.waitText("The service can't be reached")
	p.wait("question marks", `[...document.querySelectorAll(".tile-count")].every(e => e.innerText === "?")`)
	p.waitText("Nothing is known")
	p.accessible()
	recommend(t, s, request("web", "queue", 30))
	eval[int](p, "(window.away = false, 0)")
	p.waitText("1 target")
	p.wait("numbers", `document.querySelector(".tile-count").innerText === "1"`)
}

// A page that can't read its target says so, and not that nobody asks for it.
func TestAPageThatCannotReadBlamesNobody(t *testing.T) {
	s := site(t, "--allow-evaluation-time")
	const interval = 5 * time.Second
	last := time.Now()
	for i := range 3 {
		r := request("web-00", "queue", 30)
		r.EvaluationTime = timestamppb.New(last.Add(time.Duration(i-2) * interval))
		recommend(t, s, r)
	}
	p := s.open(t, webPage)
	p.wait("its count", `document.querySelector(".big .count")?.innerText === "3"`)
	p.wait("the form of overrides, for later", `performance.getEntriesByType("resource").some(r => r.name.includes("/form-"))`)
	p.expects(".*") // the service is gone
	s.Kill()
	p.waitText("Not up to date")
	time.Sleep(time.Until(last.Add(4*interval + 5*time.Second))) // it would count as not asked for after three intervals
	if text := p.text(); strings.Contains(text, "Not asked") || strings.Contains(text, "Nobody") || !strings.Contains(text, "Not up to date") {
		t.Errorf("of a service that is away the page says\n%s", text)
	}
	p.click(".overrides-card button")
	p.wait("the form, without the service", theForm+`?.open`)
}
