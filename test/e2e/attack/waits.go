//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// slowness is how long a slow third party takes.
const slowness = 30 * time.Second

// withSources has the service fetch from a slow source and a quick one.
func withSources(slow, quick **httptest.Server) func(*site) error {
	return func(s *site) error {
		release := make(chan struct{})
		*slow = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(slowness):
			case <-release:
			case <-r.Context().Done():
			}
		}))
		*quick = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"depth":50}`)) }))
		for _, server := range []*httptest.Server{*slow, *quick} {
			s.ends = append(s.ends, func() { server.CloseClientConnections(); server.Close() })
		}
		s.ends = append(s.ends, func() { close(release) })
		s.flags = append(s.flags, "--source-urls="+(*slow).URL+","+(*quick).URL)
		return nil
	}
}

// fetching stores a spec whose metric the service fetches.
func fetching(ctx context.Context, s *scene, target, source string) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = setpointv1.NewTargetServiceClient(conn).SetTargetSpec(s.asHonest(ctx), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{
		Spec: requestFor(target).GetSpec(), AssumeApplied: true, Period: durationpb.New(time.Second),
		Queries: []*setpointv1.MetricQuery{{Metric: "External:queue-depth", Source: source, ValuePath: "{.depth}"}},
	}})
	return err
}

// probe is a call that must stay quick while others wait.
type probe struct {
	name string
	path func(n int) string
}

const (
	// probed is how often each probe is made, quick its median on a machine that is not busy,
	// times how much longer it may take than before the attack.
	probed, quick, times = 12, 300 * time.Millisecond, 20
	// patience is for how long a probe is tried again, as clients do.
	patience = 3 * time.Second
)

// probing makes the calls of the probes, and returns the medians, and what failed.
func probing(ctx context.Context, s *scene, probes []probe) (medians []time.Duration, problem error) {
	took := make([][]time.Duration, len(probes))
	for n := range probed {
		for i, p := range probes {
			began := time.Now()
			for {
				short, end := context.WithTimeout(ctx, 10*time.Second)
				err := s.rested(short, http.MethodGet, p.path(n), nil)
				end()
				if err == nil {
					break
				}
				s.met.Add(p.name + " " + codeOf(err))
				if time.Since(began) > patience || ctx.Err() != nil {
					problem = fmt.Errorf("%s: %w", p.name, err)
					break
				}
				pause(ctx, 100*time.Millisecond)
			}
			took[i] = append(took[i], time.Since(began))
		}
		if problem != nil {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	for i := range took {
		slices.Sort(took[i])
		var median time.Duration // of a probe that was not made, as another failed
		if len(took[i]) > 0 {
			median = took[i][len(took[i])/2]
		}
		medians = append(medians, median)
	}
	return medians, problem
}

// beside makes calls of the probes during an attack, which must stay quick and not fail.
func beside(ctx context.Context, s *scene, probes []probe, attack func(context.Context)) error {
	before, problem := probing(ctx, s, probes)
	if problem != nil {
		return fmt.Errorf("before the attack: %w", problem)
	}
	during, cancel := context.WithCancel(ctx)
	var attacking sync.WaitGroup
	attacking.Go(func() { attack(during) })
	defer attacking.Wait()
	defer cancel()
	pause(ctx, time.Second) // until all wait
	medians, problem := probing(ctx, s, probes)
	for i, p := range probes {
		s.met.AddAll(p.name+": median ms", int(medians[i].Milliseconds()))
		if most := max(quick, times*before[i]); problem == nil && medians[i] > most {
			problem = fmt.Errorf("%s: median %v, want at most %v", p.name, medians[i].Round(time.Millisecond), most.Round(time.Millisecond))
		}
	}
	if problem != nil {
		return fmt.Errorf("beside those that wait: %w", problem)
	}
	return nil
}

// waitAttacks have the service wait for others: those that don't must not.
func waitAttacks() []*attack {
	var slow, prompt *httptest.Server
	var in *signInIssuer
	// A poll that fetches ends after two seconds; then it comes again.
	again := func(ctx context.Context, s *scene, n int, path func(i, round int) string) {
		var callers sync.WaitGroup
		for i := range n {
			callers.Go(func() {
				for round := 0; ctx.Err() == nil; round++ {
					began := time.Now()
					err := s.rested(ctx, http.MethodGet, path(i, round), nil)
					s.sent(1, 100)
					s.met.Add("polls " + codeOf(err))
					pause(ctx, time.Second-time.Since(began)) // one a second: it is no flood
				}
			})
		}
		callers.Wait()
	}
	target := func(cluster, name string) string { return "clusters/" + cluster + "/namespaces/shop/targets/" + name }
	probes := []probe{
		{"the caller itself", func(int) string { return "/v1/caller" }},
		{"a list", func(int) string { return "/v1/clusters/honest/namespaces/-/targets" }},
		{"another's poll", func(n int) string { return "/v1/" + target("victim", fmt.Sprint("t", n)) + "/recommendation" }},
	}
	work := bounds{processor: 40 * time.Second, limit: 60 * time.Second}
	run := func(n, clusters, targets int) func(context.Context, *scene) error {
		return func(ctx context.Context, s *scene) error {
			for n := range probed {
				if err := fetching(ctx, s, target("victim", fmt.Sprint("t", n)), prompt.URL); err != nil {
					return err
				}
			}
			for c := range clusters {
				for t := range targets {
					if err := fetching(ctx, s, target(fmt.Sprint("slow", c), fmt.Sprint("t", t)), slow.URL); err != nil {
						return err
					}
				}
			}
			return beside(ctx, s, probes, func(ctx context.Context) {
				again(ctx, s, n, func(i, round int) string {
					return fmt.Sprintf("/v1/%s/recommendation?maxReplicas=%d", target(fmt.Sprint("slow", i%clusters), fmt.Sprint("t", i/clusters%targets)), 1+i+round*n)
				})
			})
		}
	}
	simulations := func(ctx context.Context, s *scene) error {
		text, err := simulation(`{"duration":"400000s","loop":{"syncPeriod":"1s"},"load":[{"constant":10}],"workload":{"startup":"0s","usage":[{"metric":"queue-depth","perLoad":"10","window":"1s"}]}}`, 100)
		if err != nil {
			return err
		}
		return beside(ctx, s, probes[:2], func(ctx context.Context) {
			var callers sync.WaitGroup
			for range 24 {
				callers.Go(func() {
					for ctx.Err() == nil {
						_, err := post(ctx, s.site, "/v1/simulations:run", text)
						s.sent(1, len(text))
						s.met.Add("simulations " + codeOf(err))
						pause(ctx, 200*time.Millisecond)
					}
				})
			}
			callers.Wait()
		})
	}
	busy := work
	busy.processor = 60 * time.Second // it runs what it is there for
	return []*attack{
		{name: "waits", about: "polls whose source answers after 30 s, simulations that wait for their turn: others' calls go on", prepare: withSources(&slow, &prompt), steps: []step{
			{name: "one-source", short: true, bounds: work, run: run(600, 1, 1)},
			{name: "one-source-of-many", bounds: work, run: run(1500, 1, 1)},
			{name: "four-namespaces", short: true, bounds: work, run: run(96, 4, 12)},
			{name: "many-namespaces", bounds: work, run: run(600, 60, 2)},
			{name: "simulations", short: true, bounds: busy, run: simulations},
		}},
		{name: "sign-in", about: "callbacks of strangers, with one cookie for all, while the issuer takes 1.5 s for each", prepare: withSignIn(&in), steps: []step{
			{name: "callbacks", short: true, bounds: bounds{processor: 15 * time.Second, memory: 256}, run: func(ctx context.Context, s *scene) error { return callbacks(ctx, s, in) }},
		}},
	}
}

// simulation is a request to simulate a scenario with a spec of so many policies.
func simulation(scenario string, policies int) ([]byte, error) {
	spec := requestFor(hostileTarget).GetSpec()
	var rules []*setpointv1.HPAScalingPolicy
	for i := range policies {
		rules = append(rules, &setpointv1.HPAScalingPolicy{Type: "Pods", Value: int32(1000 + i), PeriodSeconds: 1800})
	}
	both := &setpointv1.HPAScalingRules{Policies: rules, StabilizationWindowSeconds: proto.Int32(0)}
	spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: both, ScaleDown: both}
	return protojson.Marshal(&setpointv1.SimulateRequest{Spec: spec, Scenario: scenario, FiguresOnly: true})
}

// signInIssuer is an issuer that users sign in with. Its answers to codes take a while.
type signInIssuer struct {
	*issuer
	asked atomic.Int64
}

// redeeming is how long the issuer takes to refuse a code.
const redeeming = 1500 * time.Millisecond

func withSignIn(in **signInIssuer) func(*site) error {
	return func(s *site) error {
		var i *issuer
		if err := trusts(&i)(s); err != nil {
			return err
		}
		*in = &signInIssuer{issuer: i}
		i.server.Config.Handler = *in
		s.flags = append(s.flags, "--ui-oidc-client-id=setpoint", "--ui-oidc-redirect-url=http://"+strings.Replace(s.rest, "127.0.0.1", "localhost", 1)+"/ui/sign-in/callback")
		return nil
	}
}

// ServeHTTP implements http.Handler.
func (i *signInIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"},
			"authorization_endpoint": i.server.URL + "/authorize", "token_endpoint": i.server.URL + "/token",
		})
	case "/token":
		i.asked.Add(1)
		time.Sleep(redeeming)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
	default:
		i.issuer.ServeHTTP(w, r)
	}
}

// mostRedeemed is how many codes of strangers the issuer may be asked about: it may lock the
// client out.
const mostRedeemed = 200

// callbacks has strangers call back with one cookie, and users sign in: the issuer refuses their
// codes, too, but they must come to be asked about.
func callbacks(ctx context.Context, s *scene, in *signInIssuer) error {
	begin := func() (*http.Client, string, error) {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, "", err
		}
		client := &http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Get("http://" + s.rest + "/ui/sign-in")
		if err != nil {
			return nil, "", err
		}
		defer response.Body.Close()
		to, err := url.Parse(response.Header.Get("Location"))
		if err != nil || to.Query().Get("state") == "" {
			return nil, "", fmt.Errorf("a sign-in does not begin: %s", response.Status)
		}
		return client, to.Query().Get("state"), nil
	}
	back := func(client *http.Client, state string) (int, error) {
		response, err := client.Get("http://" + s.rest + "/ui/sign-in/callback?code=none&state=" + state)
		s.sent(1, 300)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	stranger, state, err := begin()
	if err != nil {
		return err
	}
	cookies := stranger.Jar.Cookies(&url.URL{Scheme: "http", Host: s.rest, Path: "/ui/sign-in"})
	during, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	var strangers sync.WaitGroup
	for range 20 {
		strangers.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second}
			for during.Err() == nil {
				request, err := http.NewRequestWithContext(during, http.MethodGet, "http://"+s.rest+"/ui/sign-in/callback?code=none&state="+state, nil)
				if err != nil {
					return
				}
				for _, c := range cookies {
					request.AddCookie(c)
				}
				response, err := client.Do(request)
				s.sent(1, 300)
				if err == nil {
					s.met.Add(fmt.Sprint("strangers ", response.StatusCode))
					_ = response.Body.Close()
				}
				pause(during, 20*time.Millisecond)
			}
		})
	}
	defer strangers.Wait()
	pause(ctx, time.Second)
	const users = 5
	refused := 0
	for range users {
		client, state, err := begin()
		if err != nil {
			return err
		}
		code, err := back(client, state)
		if err != nil {
			return err
		}
		s.met.Add(fmt.Sprint("users ", code))
		if code == http.StatusServiceUnavailable {
			refused++
		}
	}
	asked := in.asked.Load()
	s.met.AddAll("codes that the issuer was asked about", int(asked))
	switch {
	case refused > 0:
		return fmt.Errorf("%d of %d users can't sign in", refused, users)
	case asked > mostRedeemed:
		return fmt.Errorf("the issuer was asked about %d codes of strangers, want at most %d", asked, mostRedeemed)
	}
	return nil
}
