//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// Of two tenants each has a namespace; a third may decide without recording; the honest
// caller may all it needs.
const tenants = `
grants:
  - {identities: ["token:honest"], clusters: [honest, hostile], verbs: ["*"]}
  - {identities: ["token:mallory"], clusters: [shared], namespaces: [mallory], verbs: ["*"]}
  - {identities: ["token:victim"], clusters: [shared], namespaces: [victim], verbs: ["*"]}
  - {identities: ["token:dry"], clusters: [shared], namespaces: [victim], verbs: [recommend, read]}
options:
  - {identities: ["token:dry"], dryRunOnly: true}
`

func withTenants(s *site) error {
	if err := asksWho("mallory", "victim", "dry")(s); err != nil {
		return err
	}
	path, err := s.write("policy.yaml", []byte(tenants))
	s.flags = append(s.flags, "--policy-file="+path)
	return err
}

// theirsAttacks are for data of other tenants.
func theirsAttacks() []*attack {
	var a *testpki.Authority
	return []*attack{
		{name: "page-tokens", item: "6", about: "page tokens between targets of others, those of others, and such as were tampered with", prepare: withTenants, steps: []step{{name: "list", short: true, run: pageTokens}}},
		{name: "dry-run-report", item: "7", about: "a caller that may only dry-run settles another's pending change", prepare: withTenants, steps: []step{{name: "report", short: true, run: dryReport}}},
		{name: "other-tenants", about: "every method on another tenant's target", prepare: withTenants, steps: []step{{name: "all", short: true, run: otherTenants}}},
		{name: "revoked", item: "7", about: "a certificate is revoked while its REST and gRPC connections are open", prepare: func(s *site) error {
			if err := inTLS(&a)(s); err != nil {
				return err
			}
			if _, err := s.write("crl.pem", a.Revoke(time.Now().Add(time.Hour))); err != nil {
				return err
			}
			path, err := s.write("tokens.yaml", tokensFile())
			s.honestToken = honestToken
			s.flags = append(s.flags, "--tls-client-ca-file="+s.folder+"/ca.crt", "--tls-client-crl-file="+s.folder+"/crl.pem", "--auth-tokens-file="+path)
			return err
		}, steps: []step{{name: "crl", bounds: bounds{limit: 60 * time.Second, processor: 5 * time.Second}, run: func(ctx context.Context, s *scene) error { return revoked(ctx, s, a) }}}},
		{name: "cross-site", item: "7", about: "what a browser sends for another site's page", steps: []step{{name: "posts", short: true, run: crossSite}}},
		{name: "check", item: "7", about: "serve --check with secrets of Redis", steps: []step{{name: "secrets", short: true, run: checkSecrets}}},
	}
}

func (s *site) as(ctx context.Context, who string) context.Context {
	return withToken(ctx, tokenOf(who))
}

func pageTokens(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	recommendations, targets := setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)
	for _, who := range []string{"mallory", "victim"} {
		for i := range 30 {
			name := fmt.Sprintf("clusters/shared/namespaces/%s/targets/%s-secret-%02d", who, who, i)
			if _, err := recommendations.Recommend(s.as(ctx, who), requestFor(name)); err != nil {
				return err
			}
			s.sent(1, 200)
		}
	}
	var others []string
	for who, other := range map[string]string{"mallory": "victim", "victim": "mallory"} {
		for _, parent := range []string{"clusters/-/namespaces/-", "clusters/shared/namespaces/-", "clusters/-/namespaces/" + who} {
			for _, size := range []int32{1, 7} {
				token, listed := "", 0
				for range 100 {
					answer, err := targets.ListTargets(s.as(ctx, who), &setpointv1.ListTargetsRequest{Parent: parent, PageSize: size, PageToken: token})
					if err != nil {
						return fmt.Errorf("%s lists %s: %w", who, parent, err)
					}
					for _, t := range answer.GetTargets() {
						listed++
						if strings.Contains(t.GetName(), other) {
							return fmt.Errorf("%s sees %s", who, t.GetName())
						}
					}
					if token = answer.GetNextPageToken(); token == "" {
						break
					}
					others = append(others, token)
					for _, text := range readings(token) {
						if strings.Contains(text, "secret") || strings.Contains(text, "namespaces") {
							return fmt.Errorf("%s got a page token that says %.200q", who, text)
						}
					}
				}
				if listed != 30 {
					return fmt.Errorf("%s sees %d targets of %s, want 30", who, listed, parent)
				}
			}
		}
		// The other's tokens, and tampered ones, reveal nothing of the other's.
		for i, token := range others {
			tampered := []byte(token)
			tampered[i%len(tampered)] ^= 1
			for _, try := range []string{token, string(tampered), token + "A", base64.StdEncoding.EncodeToString([]byte("clusters/shared/namespaces/" + other + "/targets/"))} {
				answer, err := targets.ListTargets(s.as(ctx, who), &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-", PageToken: try})
				s.met.Add("others' tokens " + codeOf(err))
				for _, t := range answer.GetTargets() {
					if strings.Contains(t.GetName(), other) {
						return fmt.Errorf("%s sees %s by a token", who, t.GetName())
					}
				}
				if err != nil && strings.Contains(err.Error(), other+"-secret") {
					return fmt.Errorf("%s is told %w", who, err)
				}
			}
		}
	}
	return nil
}

// readings are the possible contents of a token.
func readings(token string) []string {
	all := []string{token}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if text, err := encoding.DecodeString(token); err == nil {
			all = append(all, string(text))
		}
	}
	if text, err := hex.DecodeString(token); err == nil {
		all = append(all, string(text))
	}
	return all
}

func dryReport(ctx context.Context, s *scene) error {
	const target = "clusters/shared/namespaces/victim/targets/web"
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	recommendations, targets := setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)
	for _, outcome := range []string{"APPLIED", "FAILED"} {
		answer, err := recommendations.Recommend(s.as(ctx, "victim"), requestFor(target))
		if err != nil {
			return err
		}
		if answer.GetAction() == "NONE" {
			return errors.New("nothing is pending: the attack shows nothing")
		}
		_, err = recommendations.ReportScale(s.as(ctx, "dry"), &setpointv1.ReportScaleRequest{Target: target, RecommendationId: answer.GetRecommendationId(), Outcome: outcome})
		s.met.Add(outcome + " " + codeOf(err))
		s.sent(2, 200)
		now, err := targets.GetTarget(s.as(ctx, "victim"), &setpointv1.GetTargetRequest{Name: target})
		if err != nil {
			return err
		}
		if now.GetTarget().GetHistory().GetPending().GetRecommendationId() != answer.GetRecommendationId() {
			return fmt.Errorf("a caller that may only dry-run has settled another's change as %s", outcome)
		}
	}
	return nil
}

// otherTenants calls every method of Setpoint's on another tenant's data.
func otherTenants(ctx context.Context, s *scene) error {
	const target = "clusters/shared/namespaces/victim/targets/web"
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	recommendations, targets := setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)
	if _, err := recommendations.Recommend(s.as(ctx, "victim"), requestFor(target)); err != nil {
		return err
	}
	kept := func() (int, error) {
		got, err := targets.GetTarget(s.as(ctx, "victim"), &setpointv1.GetTargetRequest{Name: target})
		return len(got.GetTarget().GetHistory().GetRecommendations()), err
	}
	before, err := kept()
	if err != nil {
		return err
	}
	mallory := s.as(ctx, "mallory")
	for name, try := range map[string]func() error{
		"Recommend": func() error { _, err := recommendations.Recommend(mallory, requestFor(target)); return err },
		"BatchRecommend": func() error {
			answer, err := recommendations.BatchRecommend(mallory, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{requestFor("clusters/shared/namespaces/mallory/targets/web"), requestFor(target)}})
			if err != nil {
				return err
			}
			return status.ErrorProto(answer.GetResults()[1].GetError())
		},
		"StreamRecommend": func() error {
			stream, err := recommendations.StreamRecommend(mallory)
			if err != nil {
				return err
			}
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: requestFor(target)}); err != nil {
				return err
			}
			answer, err := stream.Recv()
			if err != nil {
				return err
			}
			return status.ErrorProto(answer.GetError())
		},
		"ReportScale": func() error {
			_, err := recommendations.ReportScale(mallory, &setpointv1.ReportScaleRequest{Target: target, RecommendationId: "x", Outcome: "APPLIED"})
			return err
		},
		"GetTarget": func() error {
			_, err := targets.GetTarget(mallory, &setpointv1.GetTargetRequest{Name: target})
			return err
		},
		"DeleteTarget": func() error {
			_, err := targets.DeleteTarget(mallory, &setpointv1.DeleteTargetRequest{Name: target})
			return err
		},
		"ListDecisions": func() error {
			_, err := targets.ListDecisions(mallory, &setpointv1.ListDecisionsRequest{Parent: target})
			return err
		},
		"ListTargets": func() error {
			_, err := targets.ListTargets(mallory, &setpointv1.ListTargetsRequest{Parent: "clusters/shared/namespaces/victim"})
			return err
		},
		"REST": func() error {
			err := s.rested(ctx, http.MethodGet, "/v1/"+target, nil, "Authorization", "Bearer "+tokenOf("mallory"))
			return err
		},
		"REST, escaped": func() error {
			err := s.rested(ctx, http.MethodGet, "/v1/clusters/shared/namespaces/%76ictim/targets/web", nil, "Authorization", "Bearer "+tokenOf("mallory"))
			return err
		},
		"REST, target in the body": func() error {
			err := s.rested(ctx, http.MethodPost, "/v1/clusters/shared/namespaces/mallory/targets/web:recommend", joined(base().json, []byte(`{"target":"`+target+`"}`)), "Authorization", "Bearer "+tokenOf("mallory"))
			if err == nil {
				return status.Error(codes.PermissionDenied, "it was for the path's target, or so we look")
			}
			return err
		},
	} {
		err := try()
		s.sent(1, 200)
		s.met.Add(codeOf(err))
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.InvalidArgument {
			return fmt.Errorf("%s on another tenant's target: %w", name, err)
		}
	}
	after, err := kept()
	if err == nil && after != before {
		err = fmt.Errorf("the victim's target has %d recommendations, had %d", after, before)
	}
	return err
}

// revokedWithin is when a certificate that was revoked counts no more.
const revokedWithin = 20 * time.Second

// revoked has a certificate revoked while a connection of its holder is open, of HTTP/1.1
// and of HTTP/2.
func revoked(ctx context.Context, s *scene, a *testpki.Authority) error {
	var gone []*testpki.Pair
	for _, overHTTP2 := range []bool{false, true} {
		own := a.Issue("mallory", testpki.URI("spiffe://attack/mallory"))
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool(), Certificates: []tls.Certificate{own.TLS()}}, MaxConnsPerHost: 1, ForceAttemptHTTP2: overHTTP2}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
		ask := func() error {
			response, err := client.Post("https://"+s.rest+"/v1/"+hostileTarget+":recommend", "application/json", bytes.NewReader(base().json))
			s.sent(1, 500)
			return answered(response, err)
		}
		if err := ask(); err != nil {
			return fmt.Errorf("before the certificate is revoked: %w", err)
		}
		gone = append(gone, own)
		if _, err := s.write("crl.pem", a.Revoke(time.Now().Add(time.Hour), gone...)); err != nil {
			return err
		}
		for began := time.Now(); ; pause(ctx, 300*time.Millisecond) {
			if err := ask(); err != nil {
				s.met.Add(codeOf(err))
				break
			}
			if time.Since(began) > revokedWithin {
				return fmt.Errorf("%v after it was revoked a certificate is good on an open REST connection", revokedWithin)
			}
		}
	}
	return nil
}

// crossSite calls each method that is none of GET as a browser does for a page of another site.
// Some content types need no preflight.
func crossSite(ctx context.Context, s *scene) error {
	text := joined([]byte(`{"requests":[`+string(joined([]byte(`{"target":"`+hostileTarget+`"}`), base().json))+`]}`), base().json)
	for _, m := range methods() {
		if m.verb == "" || m.verb == http.MethodGet {
			continue
		}
		for _, headers := range [][]string{
			{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
			{"Content-Type", "text/plain", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
			{"Content-Type", "text/plain", "Origin", "https://evil.example"}, // of an old browser
			{"Content-Type", "text/plain", "Origin", "null"},                 // of a sandboxed frame
			{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		} {
			for _, parameters := range []string{"", "?dryRun=false"} {
				err := s.rested(ctx, m.verb, m.path+parameters, text, headers...)
				s.sent(1, len(text))
				s.met.Add(codeOf(err))
				if status.Code(err) != codes.PermissionDenied {
					return fmt.Errorf("%s %s%s of another site's page (%s) was answered %s", m.verb, m.path, parameters, strings.Join(headers, " "), codeOf(err))
				}
			}
		}
	}
	if err := s.rested(ctx, http.MethodGet, "/v1/"+hostileTarget, nil); status.Code(err) != codes.NotFound {
		return fmt.Errorf("another site's page has made a target: %s", codeOf(err))
	}
	// And our own callers are none.
	if err := s.rested(ctx, http.MethodPost, "/v1/"+hostileTarget+":recommend", base().json); err != nil {
		return fmt.Errorf("a caller that is no browser: %w", err)
	}
	return nil
}

func checkSecrets(ctx context.Context, s *scene) error {
	const secret = "planted-pa55word"
	for _, u := range []string{
		"redis://sentinel.example:26379?master=main&sentinelPassword=" + secret,
		"redis://sentinel.example:26379?master=main&sentinelUser=a&sentinelPassword=" + secret,
		"redis://user:" + secret + "@sentinel.example:26379?master=main&sentinelPassword=x" + url.QueryEscape(secret),
		"redis://sentinel.example:26379?master=main&sentinelpassword=" + secret,
		"redis://sentinel.example?" + secret,
	} {
		text, _ := exec.CommandContext(ctx, s.program, "serve", "--check", "--redis="+u).CombinedOutput()
		s.sent(1, len(u))
		if strings.Contains(string(text), secret) {
			return fmt.Errorf("serve --check with %s tells the password", strings.ReplaceAll(u, secret, "…"))
		}
	}
	return nil
}
