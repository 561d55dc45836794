package access_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
)

// page lists targets over gRPC.
func page(t *testing.T, y *servertest.Tenancy, token, parent string, size int32, after string) (*setpointv1.ListTargetsResponse, error) {
	t.Helper()
	return y.Targets.ListTargets(servertest.As(t.Context(), token), &setpointv1.ListTargetsRequest{Parent: parent, PageSize: size, PageToken: after})
}

const everywhere = "clusters/-/namespaces/-"

func TestPagesHoldOnlyWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, servertest.Tenants, servertest.TwoTenants)
	want := map[string][]string{}
	var all []string
	for _, cluster := range []string{"amber", "blue-1", "blue-2", "red", "zinc"} {
		for _, namespace := range []string{"payments", "shop"} {
			for i := range 40 {
				target := fmt.Sprintf("clusters/%s/namespaces/%s/targets/secret-%s-%d", cluster, namespace, cluster, i)
				all = append(all, target)
				want["sp_admin"] = append(want["sp_admin"], target)
				if cluster == "red" {
					want["sp_red"] = append(want["sp_red"], target)
				}
				if strings.HasPrefix(cluster, "blue-") && namespace == "shop" {
					want["sp_blue"] = append(want["sp_blue"], target)
				}
			}
		}
	}
	y.Fill(t, all...)
	for caller, targets := range want {
		slices.Sort(targets)
		for _, size := range []int32{1, 7, 100, 1000} {
			var got []string
			token, calls := "", 0
			for {
				list, err := page(t, y, caller, everywhere, size, token)
				fatal.If(t, err)
				for _, target := range list.GetTargets() {
					got = append(got, target.GetName())
				}
				calls++
				if token = list.GetNextPageToken(); token == "" || calls > 500 {
					break
				}
				raw, err := base64.RawURLEncoding.DecodeString(token)
				if err != nil || strings.Contains(string(raw), "secret") || strings.Contains(string(raw), "zinc") {
					t.Fatalf("the token tells names: %q, %v", raw, err)
				}
			}
			if !slices.Equal(got, targets) {
				t.Errorf("%s in pages of %d: got %d targets, want %d", caller, size, len(got), len(targets))
			}
			// Pages are filled with targets that the caller may read.
			if most := len(targets)/int(size) + 2; calls > most {
				t.Errorf("%s in pages of %d: %d pages, want %d at most", caller, size, calls, most)
			}
		}
	}
}

func TestPageTokensServeOnlyWhoGotThem(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, servertest.Tenants, servertest.TwoTenants)
	var targets []string
	for _, cluster := range []string{"blue-1", "red"} {
		for i := range 4 {
			targets = append(targets, fmt.Sprintf("clusters/%s/namespaces/shop/targets/t%d", cluster, i))
		}
	}
	y.Fill(t, targets...)
	first, err := page(t, y, "sp_red", everywhere, 2, "")
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", first, err)
	}
	token := first.GetNextPageToken()
	refused := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT", what, err)
			return
		}
		servertest.WantViolations(t, err, "pageToken")
	}
	_, err = page(t, y, "sp_blue", everywhere, 2, token)
	refused("another caller", err)
	_, err = page(t, y, "sp_admin", everywhere, 2, token)
	refused("one who may read it all", err)
	_, err = page(t, y, "sp_red", "clusters/red/namespaces/-", 2, token)
	refused("another parent", err)
	_, err = y.Targets.ListDecisions(servertest.As(t.Context(), "sp_red"), &setpointv1.ListDecisionsRequest{Parent: targets[4], PageToken: token})
	refused("another list", err)
	forged := base64.RawURLEncoding.EncodeToString([]byte("red/shop/t1"))
	_, err = page(t, y, "sp_red", everywhere, 2, forged)
	refused("a position in the clear", err)
	_, err = y.Targets.ListDecisions(servertest.As(t.Context(), "sp_red"), &setpointv1.ListDecisionsRequest{Parent: targets[4], PageToken: "1"})
	refused("a position of a log in the clear", err)
	body := y.Ask(t, http.MethodGet, "/v1/"+everywhere+"/targets?pageToken="+url.QueryEscape(token), nil)
	if body.Code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", body.Code)
	}
	y.Reload(t, servertest.Tenants, strings.ReplaceAll(servertest.TwoTenants, `["blue-*"]`, `["blue-1"]`))
	if second, err := page(t, y, "sp_red", everywhere, 2, token); err != nil || len(second.GetTargets()) != 2 {
		t.Errorf("after a change for others: %v, %v", second, err)
	}
	y.Reload(t, servertest.Tenants, strings.ReplaceAll(servertest.TwoTenants, "clusters: [red]", "clusters: [red, green]"))
	_, err = page(t, y, "sp_red", everywhere, 2, token)
	refused("with other grants", err)
}

// What lies between a caller's targets costs steps, not keys, and no more than so many.
func TestAPageOfOneAmongManyIsBounded(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, servertest.Tenants, `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: ["*"]}
  - {identities: ["token:red"], clusters: ["*-red"], verbs: [read]}
`)
	targets := []string{"clusters/zzz-red/namespaces/shop/targets/mine"}
	for i := range 200 {
		targets = append(targets, fmt.Sprintf("clusters/c%03d/namespaces/shop/targets/web", i))
	}
	y.Fill(t, targets...)
	token, found := "", 0
	for calls := 1; ; calls++ {
		list, err := page(t, y, "sp_red", everywhere, 100, token)
		fatal.If(t, err)
		found += len(list.GetTargets())
		if token = list.GetNextPageToken(); token == "" {
			if calls < 2 {
				t.Error("one call went through all clusters")
			}
			break
		}
		if calls > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if found != 1 {
		t.Errorf("found %d", found)
	}
}

// ask sends a message on a stream and returns what became of it.
func askStream(t *testing.T, stream setpointv1.RecommendationService_StreamRecommendClient, target string) codes.Code {
	t.Helper()
	fatal.If(t, stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: servertest.RequestFor(target)}))
	answer, err := stream.Recv()
	fatal.If(t, err)
	code := codes.Code(answer.GetError().GetCode())
	if code == codes.Unauthenticated { // no message counts with its credentials
		_ = stream.CloseSend()
		if _, err := stream.Recv(); status.Code(err) != code {
			t.Errorf("after UNAUTHENTICATED the stream goes on: %v", err)
		}
	}
	return code
}

func openStream(t *testing.T, s *servertest.Service, token string) setpointv1.RecommendationService_StreamRecommendClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(servertest.As(t.Context(), token), 5*time.Minute)
	t.Cleanup(cancel)
	stream, err := s.Recommendations.StreamRecommend(ctx)
	fatal.If(t, err)
	return stream
}

const redRecommends = `
grants:
  - {identities: ["token:red"], clusters: [red], verbs: [recommend]}
  - {identities: ["token:blue"], clusters: [blue], verbs: [recommend]}
`

// A reload takes effect with the next message, on open streams, too.
func TestReloadsReachOpenStreams(t *testing.T) {
	t.Parallel()
	const red, blue = "clusters/red/namespaces/shop/targets/web", "clusters/blue/namespaces/shop/targets/web"
	tokens := map[string]string{"sp_t": "red"}
	y := servertest.NewTenancy(t, tokens, redRecommends)
	stream := openStream(t, y.Service, "sp_t")
	expect := func(when string, ofRed, ofBlue codes.Code) {
		t.Helper()
		for target, want := range map[string]codes.Code{red: ofRed, blue: ofBlue} {
			if got := askStream(t, stream, target); got != want {
				t.Errorf("%s: %s got %s, want %s", when, target, got, want)
			}
		}
	}
	revoked := func(when string) {
		t.Helper()
		if got := askStream(t, stream, red); got != codes.Unauthenticated {
			t.Errorf("%s: got %s", when, got)
		}
	}
	expect("at first", codes.OK, codes.PermissionDenied)
	y.Reload(t, tokens, strings.ReplaceAll(redRecommends, "clusters: [red]", "clusters: [none]"))
	expect("with its grant gone", codes.PermissionDenied, codes.PermissionDenied)
	y.Reload(t, tokens, redRecommends)
	expect("with its grant back", codes.OK, codes.PermissionDenied)
	y.Reload(t, map[string]string{"sp_t": "blue"}, redRecommends)
	expect("the token is another's now", codes.PermissionDenied, codes.OK)
	y.Reload(t, map[string]string{"sp_other": "red"}, redRecommends)
	revoked("the token is revoked")
	y.Reload(t, tokens, redRecommends)
	stream = openStream(t, y.Service, "sp_t")
	expect("the token is back", codes.OK, codes.PermissionDenied)
	y.Write(t, map[string]string{"sp_other": "red"}, redRecommends)
	fatal.If(t, y.Authenticator.Reload())
	revoked("the token is revoked, and the policy is as it was")
}

func TestDryRunOnlyCallersChangeNothing(t *testing.T) {
	t.Parallel()
	const target = "clusters/red/namespaces/shop/targets/web"
	y := servertest.NewTenancy(t, map[string]string{"sp_admin": "admin", "sp_red": "red"}, `
grants:
  - {identities: ["token:*"], clusters: ["*"], verbs: ["*"]}
options:
  - {identities: ["token:red"], clusters: [red], dryRunOnly: true}
`)
	decided, err := y.Recommendations.Recommend(servertest.As(t.Context(), "sp_admin"), servertest.RequestFor(target))
	fatal.If(t, err)
	report := &setpointv1.ReportScaleRequest{Target: target, RecommendationId: decided.GetRecommendationId(), Outcome: "FAILED"}
	before := y.Stored(t, target)
	for what, call := range map[string]func() error{
		"ReportScale": func() error {
			_, err := y.Recommendations.ReportScale(servertest.As(t.Context(), "sp_red"), report)
			return err
		},
		"DeleteTarget": func() error {
			_, err := y.Targets.DeleteTarget(servertest.As(t.Context(), "sp_red"), &setpointv1.DeleteTargetRequest{Name: target})
			return err
		},
	} {
		if err := call(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "dry runs only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !slices.Equal(y.Stored(t, target), before) {
		t.Error("the record was changed")
	}
	if _, err := y.Recommendations.ReportScale(servertest.As(t.Context(), "sp_admin"), report); err != nil {
		t.Errorf("by who may: %v", err)
	}
	const other = "clusters/blue/namespaces/shop/targets/web"
	decided, err = y.Recommendations.Recommend(servertest.As(t.Context(), "sp_red"), servertest.RequestFor(other))
	fatal.If(t, err)
	if _, err := y.Recommendations.ReportScale(servertest.As(t.Context(), "sp_red"), &setpointv1.ReportScaleRequest{Target: other, RecommendationId: decided.GetRecommendationId(), Outcome: "FAILED"}); err != nil {
		t.Errorf("where it may: %v", err)
	}
}

// Answers are remembered by request id. One that was made under other options is no answer
// for a caller whose options the operator has set.
func TestAnswersOfOthersAreNoWayAroundOptions(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, map[string]string{"sp_free": "free", "sp_capped": "capped"}, `
grants:
  - {identities: ["token:*"], clusters: ["*"], verbs: ["*"]}
options:
  - {identities: ["token:capped"], caps: {maxReplicas: 6}}
`)
	ask := func(token string) *setpointv1.RecommendResponse {
		req := servertest.RequestFor(servertest.ShopTarget)
		req.RequestId = "the-same"
		resp, err := y.Recommendations.Recommend(servertest.As(t.Context(), token), req)
		fatal.If(t, err)
		return resp
	}
	free, capped := ask("sp_free"), ask("sp_capped")
	if free.GetDesiredReplicas() != 8 || capped.GetDesiredReplicas() > 6 {
		t.Errorf("free %d, capped %d, want 8 and 6 at most", free.GetDesiredReplicas(), capped.GetDesiredReplicas())
	}
	again := ask("sp_capped")
	if again.GetRecommendationId() != capped.GetRecommendationId() {
		t.Error("its own retry is decided again")
	}
	if got := again.GetRequestId(); got != "the-same" {
		t.Errorf("its retry is told to be the answer to %q", got)
	}
	if again = ask("sp_free"); again.GetRecommendationId() != free.GetRecommendationId() {
		t.Error("the other's retry is decided again")
	}
}

// Identities do not travel in headers, which hold less than an issuer may say.
func TestCallersOfManyGroupsMayUseREST(t *testing.T) {
	t.Parallel()
	groups := make([]string, 300)
	for i := range groups {
		groups[i] = fmt.Sprintf("a-department-with-a-long-name-%04d", i)
	}
	issuer := signintest.Start(t)
	issuer.Claims(func(claims map[string]any) { claims["groups"] = groups })
	token := issuer.Token()
	file := filepath.Join(t.TempDir(), "oidc.yaml")
	fatal.If(t, os.WriteFile(file, fmt.Appendf(nil, "issuers: [{issuer: %q, audiences: [%s], groupsClaim: groups, prefix: 'a-corporation-with-a-long-name:'}]", issuer.URL, signintest.ClientID), 0o600))
	authenticator, err := auth.New(auth.Options{OIDCFile: file, Files: files.Options{Interval: -1, Settle: time.Millisecond}})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	p, err := policy.Parse("policy.yaml", []byte(`{grants: [{groups: ["*-0299"], clusters: [demo], verbs: [recommend, read]}]}`))
	fatal.If(t, err)
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
	})
	if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), token), servertest.RequestFor(servertest.ShopTarget)); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	body := servertest.RequestFor(servertest.ShopTarget)
	body.Target = ""
	for name, tt := range map[string]struct {
		method, path string
		body         any
	}{
		"the fast path":    {http.MethodPost, "/v1/" + servertest.ShopTarget + ":recommend", body},
		"over the gateway": {http.MethodPost, "/v1/" + servertest.ShopTarget + ":recommend?", body},
		"a read":           {http.MethodGet, "/v1/" + servertest.ShopTarget, nil},
	} {
		req := s.Request(t, tt.method, tt.path, tt.body)
		req.Header.Set("Authorization", "Bearer "+token)
		if name == "over the gateway" {
			req.Header.Set("Grpc-Timeout", "5S")
		}
		a := s.MustSend(t, req)
		if a.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.Code, a.Raw)
		}
	}
}
