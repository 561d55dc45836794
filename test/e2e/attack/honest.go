//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// An honest caller requests a small recommendation at a steady rate, over gRPC and REST in
// turn, and retries calls that are refused for overload or fail transiently, as
// clients/setpoint does. It is a process of its own, so that the attacker's work does not slow
// it down.
const (
	honestArgument = "honest-caller"
	honestPause    = 20 * time.Millisecond
	honestTries    = 6
	honestBackoff  = 50 * time.Millisecond
	honestTimeout  = 10 * time.Second
	honestAtOnce   = 100
	// standstill is how late a clock must ring for the machine to have stood still.
	standstill = 20 * time.Millisecond
)

// honest is a caller's process.
type honest struct {
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	calls []honestCall // guarded by mu
}

// honestCall is one call, or a standstill of the machine.
type honestCall struct {
	began  time.Time
	took   time.Duration
	what   string // grpc, rest or stood
	result string
	first  string // of its first try
}

func startHonest(s *site) (*honest, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, honestArgument, "-grpc="+s.grpc, "-rest="+s.rest, "-token="+s.honestToken, "-authority="+s.authority)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &honest{cmd: cmd, ended: make(chan struct{})}
	go h.read(out)
	return h, nil
}

func (h *honest) read(out io.Reader) {
	defer close(h.ended)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var began, took int64
		var call honestCall
		if _, err := fmt.Sscan(lines.Text(), &call.what, &began, &took, &call.result, &call.first); err != nil {
			continue
		}
		call.began, call.took = time.Unix(0, began), time.Duration(took)
		h.mu.Lock()
		h.calls = append(h.calls, call)
		h.mu.Unlock()
	}
}

// end ends the caller.
func (h *honest) end() {
	_ = h.cmd.Process.Kill()
	<-h.ended
	_ = h.cmd.Wait()
}

// honestly is an honest caller's experience over some time.
type honestly struct {
	Calls   int
	Failed  int
	Results map[string]int `json:",omitempty"`
	// Turned are the codes that first tries over gRPC met, other than OK and ResourceExhausted.
	Turned   map[string]int `json:",omitempty"`
	P50, P99 time.Duration
	Worst    time.Duration
	// Stood is the longest that the machine stood still.
	Stood time.Duration
}

// between returns the results of calls that began in that time.
func (h *honest) between(from, to time.Time) honestly {
	h.mu.Lock()
	defer h.mu.Unlock()
	met := honestly{Results: make(map[string]int), Turned: make(map[string]int)}
	var times []time.Duration
	for _, c := range h.calls {
		if c.began.Before(from) || c.began.After(to) {
			continue
		}
		if c.what == "stood" {
			met.Stood = max(met.Stood, c.took)
			continue
		}
		met.Calls++
		times = append(times, c.took)
		if c.what == "grpc" && c.first != codes.OK.String() && c.first != codes.ResourceExhausted.String() {
			met.Turned[c.first]++
		}
		if c.result != codes.OK.String() {
			met.Failed++
			met.Results[c.what+" "+c.result]++
		}
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		met.P50, met.P99, met.Worst = times[n/2], times[n*99/100], times[n-1]
	}
	return met
}

// behaveHonestly is the caller's process. It returns if it could not begin.
func behaveHonestly(args []string) error {
	flags := flag.NewFlagSet(honestArgument, flag.ExitOnError)
	overGRPC, overREST := flags.String("grpc", "", ""), flags.String("rest", "", "")
	token, authority := flags.String("token", "", ""), flags.String("authority", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	transport, scheme, config := insecure.NewCredentials(), "http", (*tls.Config)(nil)
	if *authority != "" {
		text, err := os.ReadFile(*authority)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(text)
		config = &tls.Config{RootCAs: pool}
		transport, scheme = credentials.NewTLS(config.Clone()), "https"
	}
	conn, err := grpc.NewClient(*overGRPC, grpc.WithTransportCredentials(transport))
	if err != nil {
		return err
	}
	c := &honestCaller{
		conn: conn, token: *token, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 8}},
		url: scheme + "://" + *overREST, out: bufio.NewWriter(os.Stdout),
	}
	go c.watchTheClock()
	places := make(chan struct{}, honestAtOnce)
	for n := 0; ; n++ {
		places <- struct{}{}
		go func() {
			c.ask(n)
			<-places
		}()
		time.Sleep(honestPause)
	}
}

type honestCaller struct {
	conn   *grpc.ClientConn
	client *http.Client
	url    string
	token  string
	mu     sync.Mutex
	out    *bufio.Writer // guarded by mu
}

func (c *honestCaller) tell(what string, began time.Time, took time.Duration, result, first string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, what, began.UnixNano(), took.Nanoseconds(), result, first)
	_ = c.out.Flush()
}

// watchTheClock detects that the machine stalls, which is nobody's fault.
func (c *honestCaller) watchTheClock() {
	const every = 5 * time.Millisecond
	for {
		began := time.Now()
		time.Sleep(every)
		if late := time.Since(began) - every; late > standstill {
			c.tell("stood", began, late, "-", "-")
		}
	}
}

func (c *honestCaller) ask(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), honestTimeout)
	defer cancel()
	target := fmt.Sprintf("clusters/honest/namespaces/shop/targets/t%d", n%50)
	call, what := c.overGRPC, "grpc"
	if n%2 == 1 {
		call, what = c.overREST, "rest"
	}
	began := time.Now()
	var code, first codes.Code
	for try := range honestTries {
		code = call(ctx, target)
		if try == 0 {
			first = code
		}
		// After the last attempt the caller gives up: such a call counts as failed.
		if code != codes.ResourceExhausted && code != codes.Unavailable || try == honestTries-1 {
			break
		}
		time.Sleep(honestBackoff << try)
	}
	c.tell(what, began, time.Since(began), code.String(), first.String())
}

func (c *honestCaller) overGRPC(ctx context.Context, target string) codes.Code {
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	_, err := setpointv1.NewRecommendationServiceClient(c.conn).Recommend(ctx, requestFor(target))
	return status.Code(err)
}

func (c *honestCaller) overREST(ctx context.Context, target string) codes.Code {
	body, err := protojson.Marshal(requestFor(""))
	if err != nil {
		return codes.Internal
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/"+target+":recommend", bytes.NewReader(body))
	if err != nil {
		return codes.Internal
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return codes.DeadlineExceeded
		}
		return codes.Unavailable // the connection broke
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return codes.Unavailable
	}
	switch response.StatusCode {
	case http.StatusOK:
		return codes.OK
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	}
	return codes.Unknown
}
