//go:build linux

package deploy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// ofCompose are the lines of haproxy.cfg that fit the composition only: names, ports, TLS.
var ofCompose = []struct{ pattern, to string }{
	{`default-server check port 9091 (.*) init-addr .*`, `default-server check $1`},
	{`(?m)^resolvers docker\n(    .*\n)+`, ""},
	{`bind :8080 .*`, "bind {rest}"},
	{`bind :9090 .*`, "bind {grpc} proto h2"},
	{`setpoint-(\d):8080`, "{rest-$1} port {admin-$1}"},
	{`setpoint-(\d):9090`, "{grpc-$1} port {admin-$1}"},
}

// balance starts HAProxy with the configuration of deploy/ in front of the instances, and
// returns its addresses.
func balance(t *testing.T, instances []*service.Instance) (rest, grpcAddress string) {
	t.Helper()
	config := read(t, "..", "..", "..", "deploy", "haproxy.cfg")
	for _, line := range ofCompose {
		pattern := regexp.MustCompile(line.pattern)
		if !pattern.MatchString(config) {
			t.Fatalf("haproxy.cfg has no %s", line.pattern)
		}
		config = pattern.ReplaceAllString(config, line.to)
	}
	ports, err := process.Reserve(2)
	fatal.If(t, err)
	t.Cleanup(ports.Release)
	rest, grpcAddress = ports.Address(0), ports.Address(1)
	words := []string{"{rest}", rest, "{grpc}", grpcAddress}
	for i, s := range instances {
		for word, address := range map[string]string{"rest": s.RESTAddr(), "grpc": s.GRPCAddr(), "admin": s.AdminAddr()} {
			if word == "admin" {
				address = address[strings.LastIndexByte(address, ':')+1:]
			}
			words = append(words, fmt.Sprintf("{%s-%d}", word, i+1), address)
		}
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "haproxy.cfg")
	fatal.If(t, os.WriteFile(file, []byte(strings.NewReplacer(words...).Replace(config)), 0o600))
	running, err := process.Start(process.Command{Name: "haproxy", Program: "haproxy", Args: []string{"-db", "-f", file}, Log: filepath.Join(folder, "log"), Env: process.Environ()})
	fatal.If(t, err)
	t.Cleanup(func() {
		running.Kill()
		if t.Failed() {
			t.Log(running.Log())
		}
	})
	return rest, grpcAddress
}

// Instances that hold down while Redis is away stay in the load balancer, which asks for
// readiness as a Service's probe does: their callers get answers, by REST and by gRPC.
func TestHoldDownBehindTheLoadBalancer(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	instances := service.StartAll(t, 2, "--redis="+redis.URL(), "--on-store-failure=hold-down")
	rest, address := balance(t, instances)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	defer func() { _ = conn.Close() }()
	const target = "clusters/c/namespaces/n/targets/t"
	overGRPC := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(ctx, request(target, ""))
		return err
	}
	overREST := func() error {
		client := http.Client{Timeout: 10 * time.Second}
		answer, err := client.Post("http://"+rest+"/v1/"+target+":recommend", "application/json",
			strings.NewReader(`{"spec": {"maxReplicas": 5}, "scale": {"specReplicas": 7, "statusReplicas": 7}}`))
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	both := func() error {
		if err := overREST(); err != nil {
			return err
		}
		return overGRPC()
	}
	kit.Eventually(t, time.Minute, "answers through HAProxy", both)
	for _, s := range instances { // each knows the target
		if _, err := s.Recommendations().Recommend(t.Context(), request(target, "")); err != nil {
			t.Fatal(err)
		}
	}
	redis.Kill()
	kit.Eventually(t, time.Minute, "Redis is missed", func() error {
		for _, s := range instances {
			if s.Metric("setpoint_store_up") != 0 {
				return fmt.Errorf("%s has it", s.AdminAddr())
			}
		}
		return nil
	})
	// HAProxy asks every second, and takes an instance out after two refusals.
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		if err := both(); err != nil {
			t.Fatalf("after %v without Redis: %v", time.Since(began).Round(time.Millisecond), err)
		}
	}
	redis.Restart()
	kit.Eventually(t, time.Minute, "all is written", func() error {
		for _, s := range instances {
			if n := s.Metric("setpoint_unwritten_targets"); n != 0 || s.Metric("setpoint_store_up") != 1 {
				return fmt.Errorf("%v are not, on %s", n, s.AdminAddr())
			}
		}
		return both()
	})
}

// Instances that refuse while Redis is away are unready: callers are told so by them, not by the load balancer, and
// operators can ask what the store says.
func TestAnOutageBehindTheLoadBalancer(t *testing.T) {
	redis := redistest.Start(t, redistest.Config{})
	instances := service.StartAll(t, 2, "--redis="+redis.URL())
	rest, address := balance(t, instances)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal.If(t, err)
	defer func() { _ = conn.Close() }()
	asked := func(want string) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(ctx, request("clusters/c/namespaces/n/targets/t", ""))
			if got := setpoint.Reason(err); got != want || err != nil && got == "" {
				return fmt.Errorf("over gRPC: %w", err)
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+rest+"/v1/store", http.NoBody)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = answer.Body.Close() }()
			text, err := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusOK || strings.Contains(string(text), `"reachable":true`) != (want == "") {
				return fmt.Errorf("over REST: %s: %s", answer.Status, text)
			}
			return err
		}
	}
	kit.Eventually(t, time.Minute, "answers through HAProxy", asked(""))
	redis.Kill()
	kit.Eventually(t, time.Minute, "the reason through HAProxy", asked("STORE_UNAVAILABLE"))
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Millisecond) { // both are out
		fatal.If(t, asked("STORE_UNAVAILABLE")())
	}
	redis.Restart()
	kit.Eventually(t, time.Minute, "answers again", asked(""))
}
