// Package setpoint is the client of a Setpoint service.
//
//	client, err := setpoint.New("setpoint-0:9090,setpoint-1:9090",
//		setpoint.WithTLS(setpoint.TLS{CAFile: "/etc/setpoint/ca.pem"}),
//		setpoint.WithTokenFile("/var/run/secrets/setpoint/token"))
//	// …
//	defer client.Close()
//	request := &setpointv1.RecommendRequest{
//		Target: "clusters/demo/namespaces/shop/targets/web",
//		Spec:   spec,
//		Scale:  &setpointv1.Scale{SpecReplicas: 3},
//	}
//	answer, err := client.Recommend(ctx, request)
//	if err != nil {
//		return err // hold the count; retries are exhausted
//	}
//	if err := setpoint.CheckAnswer(setpoint.Asked{Request: request}, answer); err != nil {
//		return err // hold the count: the answer is invalid
//	}
//	if answer.GetAction() != "NONE" {
//		// apply answer.GetDesiredReplicas(), then client.ReportScale
//	}
//	time.Sleep(15 * time.Second) // and again
//
// Wait for a whole period after an answer was applied and reported, instead of calling on
// the ticks of a clock. The policies of a behavior count the changes within their period,
// which in most specs equals the period of the calls: a call that comes slightly less than a
// period after the last change is still limited by it, and a step takes two periods.
//
// Calls are spread over all addresses. One that fails transiently is retried, on another
// connection if there is one, with the same request id, so that it counts once whatever
// happened to the first attempt. [Retry] says how often and when; [WithHedging] sends a second attempt before the first has failed. Errors are
// gRPC statuses; [Violations], [RetryDelay] and [Reason] read their details.
//
// [Client.WatchDecisions] follows the decisions on targets, over restarts of the service. Other methods, such as those of overrides
// and stored specs, are called by their generated clients over [Client.Conn].
//
// The client decides nothing about scaling and does not apply anything.
package setpoint

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Client calls a service. It is safe for concurrent use; one is enough for a program.
type Client struct {
	conn            *grpc.ClientConn
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	config          *config
	retries         *retrier
	encrypted       encrypted // zero: without TLS

	// life ends with Close, and with it the streams that are running.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
}

// New returns a client. It connects at the first call, so that an unreachable address is no
// error here.
//
// The target is one of:
//   - "host:port", where all addresses of the host are used; the default port is 9090;
//   - several of those, separated by commas;
//   - what gRPC calls a target, for example "dns:///setpoint.example.org:9090" or
//     "unix:///run/setpoint.sock".
//
// By default the transport is TLS with the system's CAs; without it, as by [WithInsecure] and
// [WithTokenOverInsecure], where each address is localhost or one of the loopback interface, and
// no option says what to trust.
func New(target string, options ...Option) (*Client, error) {
	cfg := defaultConfig()
	for _, option := range options {
		option(cfg)
	}
	dialTarget, addresses, err := readTarget(target)
	if err != nil {
		return nil, err
	}
	cfg.local = allOnLoopback(addresses)
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	transport, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	c := &Client{config: cfg, retries: newRetrier(cfg.retry)}
	c.encrypted, _ = transport.(encrypted)
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// The client's own retry policy is the only one: one from DNS would multiply with it.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithKeepaliveParams(cfg.keepalive),
		grpc.WithConnectParams(connectParams),
		grpc.WithUserAgent(cfg.userAgent),
		grpc.WithDefaultCallOptions(
			grpc.WaitForReady(false),
			grpc.MaxCallSendMsgSize(cfg.maxSendBytes),
			grpc.MaxCallRecvMsgSize(cfg.maxReceiveBytes)),
		grpc.WithChainUnaryInterceptor(c.interceptors()...),
	}
	if len(addresses) > 1 {
		dial = append(dial, grpc.WithResolvers(addressList(addresses)))
	}
	if name := cfg.serverName(); name != "" {
		dial = append(dial, grpc.WithAuthority(name)) // gRPC uses it for the name
	}
	if cfg.token != nil {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{token: cfg.token, anywhere: cfg.tokenAnywhere}))
	}
	if c.conn, err = grpc.NewClient(dialTarget, append(dial, cfg.dial...)...); err != nil {
		return nil, fmt.Errorf("setpoint: %w", err)
	}
	c.recommendations = setpointv1.NewRecommendationServiceClient(c.conn)
	c.targets = setpointv1.NewTargetServiceClient(c.conn)
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// interceptors returns the interceptors of unary calls, the outermost first.
func (c *Client) interceptors() []grpc.UnaryClientInterceptor {
	chain := []grpc.UnaryClientInterceptor{
		c.boundCalls,
		identifyCalls,
		c.retries.unary,
	}
	if c.config.hedges > 1 {
		h := &hedger{delay: c.config.hedgeDelay, max: c.config.hedges, budget: &c.retries.budget}
		chain = append(chain, h.unary)
	}
	chain = append(chain, withAttemptTimeout(c.config.retry.AttemptTimeout))
	if c.encrypted.open != nil {
		chain = append(chain, c.encrypted.unary)
	}
	return chain
}

// connectParams bound how long a recovered service may go unnoticed: with gRPC's defaults up to
// two minutes.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Conn returns the connection, for generated clients of other methods. Unary calls over it are
// retried, too.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close ends streams and calls that are running with CANCELED, one that waits for its next
// attempt with the error of the last, and closes all connections.
func (c *Client) Close() error {
	c.end()
	c.running.Wait()
	return c.conn.Close()
}
