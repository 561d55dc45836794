// Package server serves the recommender over gRPC and REST: it validates and converts
// requests, loads and swaps histories, and sends responses. Package recommender has the
// scaling rules, package store the storage engines.
//
//	s, err := server.New(engine, engine, server.DefaultOptions())
//	…
//	err = s.Serve(ctx, grpcListener, httpListener) // until ctx ends and calls are drained
//
// Errors are google.rpc.Status values with details; the codes are those of the contract.
// The caller closes the engines.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/feed"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/health"
	"github.com/setpoint-dev/setpoint/server/keda"
	"github.com/setpoint-dev/setpoint/server/operations"
	"github.com/setpoint-dev/setpoint/server/overrides"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/rest"
	"github.com/setpoint-dev/setpoint/server/services"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/simulations"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/watches"
	"github.com/setpoint-dev/setpoint/server/workers"
	"github.com/setpoint-dev/setpoint/store"
)

// Server serves one store. It may run only once.
type Server struct {
	options  Options
	log      *zap.Logger
	grpc     *grpc.Server
	http     *http.Server
	health   *health.Server
	observer *calls.Observer
	recorder *decisionlog.Log
	// hub is nil if decisions can't be watched.
	hub     *feed.Hub
	targets *decision.Targets
	// overrides is nil if the store keeps none.
	overrides *overrides.Overrides
	service   *services.Recommendations
	drain     *calls.Drain
	guard     *admission.Guard
	workers   *workers.Workers
	// signIn is nil if the page has no sign-in beyond the API's own credentials.
	signIn *signin.SignIn
	// instance sends the heartbeats of this instance.
	instance   *operations.Instance
	operations *operations.Service
	ports      *ports
	handshakes handshakes
	// cutOff ends the calls that a drain waits for no longer.
	cutOff context.CancelFunc
}

// watched are the names of services whose health is that of the store; "" is the server as a whole.
var watched = []string{"", setpointv1.RecommendationService_ServiceDesc.ServiceName, setpointv1.TargetService_ServiceDesc.ServiceName}

// New returns a server that does not listen yet. The log may be nil.
func New(engine store.Engine, log store.Log, options Options) (*Server, error) {
	if options.Log == nil {
		options.Log = zap.NewNop()
	}
	if err := validation.Warm(); err != nil {
		return nil, fmt.Errorf("compile validation rules: %w", err)
	}
	s := &Server{options: options, log: options.Log, health: health.New(watched...), drain: calls.NewDrain(), ports: &ports{}, handshakes: handshakes{open: make(map[*handshake]struct{})}}
	life, cutOff := context.WithCancel(context.Background())
	s.cutOff = cutOff
	t := decision.New(engine, &s.options.Options, s.health.Set, life)
	counted := telemetry.NewCalls(methods()...)
	reader := requests.New(t, &s.options.Settings, counted)
	if err := s.register(append(t.Collectors(), reader.Metrics.Collectors()...)...); err != nil {
		return nil, err
	}
	t.Shares = shares.New(engine, s.options.Shares(), reader.RefuseShare)
	s.targets = t
	var err error
	if s.overrides, err = overrides.New(engine, overrides.Options{Clock: t.StoreTime, Log: s.log, Life: life}); err != nil {
		return nil, err
	}
	t.Overrides = s.overrides
	if err := s.register(s.overrides.Collectors(options.TargetMetrics > 0)...); err != nil {
		return nil, err
	}
	var tokensIn map[string]func([]byte) string
	if options.KEDATokens {
		tokensIn = keda.Tokens()
	}
	s.guard, err = admission.New(admission.Options{
		TokensIn:   tokensIn,
		CostLimits: options.CostLimits(),
		Access:     options.Access, Limits: options.Limits, RequestTimeout: options.RequestTimeout,
		MaxConnections: options.MaxConnections, MaxCallsPerConnection: options.MaxCallsPerConnection, MaxRequestBytes: options.MaxRequestBytes,
		Calls: counted, Registerer: options.Registerer, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	reader.Limiter = s.guard.Limiter
	if err := s.showRoom(reader.Gate); err != nil {
		return nil, err
	}
	fed, _ := log.(store.Feed)
	if err := s.newHub(fed); err != nil {
		return nil, err
	}
	s.recorder = decisionlog.New(log, fed, s.log, options.LoggedRepeats)
	t.Decisions = s.recorder
	t.Recordings = recordings.New(options.Recordings, engine, func(chunks store.Log) *decisionlog.Log { return decisionlog.New(chunks, nil, s.log, 0) })
	if err := s.register(t.Recordings.Collectors()...); err != nil {
		return nil, err
	}
	if t.Forecasts, err = decision.NewForecasts(t, engine); err != nil {
		return nil, err
	}
	if err := s.register(t.Forecasts.Collectors()...); err != nil {
		return nil, err
	}
	all, err := fleets.New(t, engine, fleets.Options{
		Defaults: options.Recommend, TTL: options.HistoryTTL, Shares: s.options.Shares(), Refused: reader.RefuseShare, MaxAttempts: options.MaxAttempts, Decisions: s.recorder, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	t.Fleets = all
	if err := s.register(all.Collectors(options.TargetMetrics)...); err != nil {
		return nil, err
	}
	s.observer = calls.NewObserver(counted, s.log, options.LogCalls, options.Tracing)
	reader.Observer = s.observer
	s.workers = workers.New(grpcWorkers, idleWorkers)
	s.service, err = services.NewRecommendations(t, engine, services.Options{Requests: reader, Fleets: all, Sources: options.Sources, Guard: s.guard, MaxStreamInFlight: options.MaxStreamInFlight, Draining: s.drain.Begun, Workers: s.workers})
	if err != nil {
		return nil, err
	}
	s.instance = operations.NewInstance(operations.Options{
		Engine: engine, StoreKind: options.StoreKind, Version: options.Version, Calls: counted,
		Limiter: s.guard.Limiter, MaxInFlight: options.Limits.InFlight, Away: t.Watch.Away.Load, Draining: s.drain.Begun,
	})
	s.operations = operations.New(s.instance)
	unary := calls.ChainUnary([]grpc.UnaryServerInterceptor{s.observer.Unary, s.drain.Unary, calls.RecoverCalls(s.log), calls.WithDeadline(options.RequestTimeout), s.guard.AuthenticateCalls, s.guard.LimitCalls, s.guard.AuthorizeCalls, s.guard.ReadInTurn})
	streams := calls.ChainStreams([]grpc.StreamServerInterceptor{s.observer.Stream, calls.AnswerUnknown, s.drain.Stream, calls.RecoverStreams(s.log), s.guard.AuthenticateStreams, s.guard.LimitStreams})
	grpcOptions := []grpc.ServerOption{
		grpc.Creds(newEdgeCredentials(options.TLS, s.ports, errorlog.New(s.log, zap.InfoLevel))),
		grpc.ForceServerCodecV2(encoded.NewCodec()),
		grpc.MaxRecvMsgSize(options.MaxRequestBytes),
		grpc.UnaryInterceptor(unary),
		grpc.UnknownServiceHandler(calls.UnknownMethods),
		grpc.StreamInterceptor(calls.ChainStreams([]grpc.StreamServerInterceptor{s.workers.Stream, streams})),
	}
	grpcOptions = append(grpcOptions, connectionOptions(&options)...)
	grpcOptions = append(grpcOptions, s.observer.ServerOptions()...)
	if s.guard.Limiter != nil {
		grpcOptions = append(grpcOptions, grpc.InTapHandle(s.guard.Enter))
	}
	s.grpc = grpc.NewServer(grpcOptions...)
	var session func(*http.Request) ([]string, error)
	if options.SignIn != nil && options.Access != nil && options.Page != nil {
		if s.signIn, err = signin.New(*options.SignIn, options.Access.Authenticator, engine, s.log); err != nil {
			return nil, err
		}
		session = s.signIn.Authorization
	}
	gateway := rest.New(rest.Options{
		Guard: s.guard, Observer: s.observer, Requests: reader, Recommendations: s.service,
		Unary: unary, Streams: streams, Session: session, CostLimits: options.CostLimits(), MaxRequestBytes: options.MaxRequestBytes, Draining: s.drain.Begun,
	})
	for _, of := range []struct {
		desc    *grpc.ServiceDesc
		service any
	}{
		{services.RecommendationsDesc(), s.service},
		{services.TargetsDesc(), services.NewTargets(s.service, engine, log, watches.Options{
			Hub: s.hub, PerCaller: options.MaxWatchersPerCaller, Heartbeat: options.WatchHeartbeat, UnreadTimeout: options.UnreadTimeout, Guard: s.guard, Draining: s.drain.Begun,
		})},
		{&setpointv1.SimulationService_ServiceDesc, simulations.New(simulations.Options{
			AtOnce: options.MaxSimulations, Work: int64(options.MaxSimulationWork), Defaults: options.Recommend, UnreadTimeout: options.UnreadTimeout, Guard: s.guard, Draining: s.drain.Begun,
		})},
		{&setpointv1.OverrideService_ServiceDesc, overrides.NewService(s.overrides, engine)},
		{&setpointv1.FleetService_ServiceDesc, services.NewFleets(all)},
		{&setpointv1.OperationsService_ServiceDesc, s.operations},
	} {
		s.registrar(0).RegisterService(of.desc, of.service)
		gateway.Add(of.desc, of.service)
	}
	externalscaler.RegisterExternalScalerServer(s.registrar(keda.MaxMessage), s.service.Scaler())
	healthv1.RegisterHealthServer(s.registrar(admission.MostExemptBytes), s.health)
	reflection.Register(s.registrar(admission.MostExemptBytes))
	if err := s.newREST(gateway); err != nil {
		s.recorder.Close()
		t.Recordings.Close()
		t.Forecasts.Close()
		return nil, err
	}
	return s, nil
}

// registrar registers services whose messages have at most that many bytes (0: as many as the server
// takes), with everything that applies to all of them.
func (s *Server) registrar(most int) registrar {
	return registrar{calls.Registrar{Server: s.grpc, Observer: s.observer}, s, most}
}

type registrar struct {
	calls.Registrar
	server *Server
	most   int
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	r.Registrar.RegisterService(r.server.workers.Calls(r.server.guard.Limited(desc, r.most)), service)
}

// newREST creates the server of REST.
func (s *Server) newREST(gateway *rest.Gateway) error {
	contract, err := gateway.Handler()
	if err != nil {
		return err
	}
	routes, err := s.routes(contract)
	if err != nil {
		return err
	}
	// HTTP/2 in plain text is what clients of gRPC speak, who took this port for theirs.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           admission.AnswerUnread(admission.CountREST(s.guard.UnreadREST(s.refuseGRPC(routes)))),
		Protocols:         &protocols,
		ConnContext:       admission.WithConnection,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       restTimeout(s.options.RequestTimeout),
		WriteTimeout:      restTimeout(s.options.RequestTimeout),
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    s.options.MaxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          admission.RESTCallsEach,
			MaxReceiveBufferPerConnection: admission.RESTWindow,
			MaxReceiveBufferPerStream:     admission.RESTWindow,
		},
		TLSConfig: s.options.TLS.Clone(), // net/http changes it
		ErrorLog:  errorlog.New(s.log, zap.InfoLevel),
	}
	return nil
}

// Recommendations returns the service, for calls within the process.
func (s *Server) Recommendations() setpointv1.RecommendationServiceServer { return s.service }

// Operations returns the service of operations, for calls within the process.
func (s *Server) Operations() setpointv1.OperationsServiceServer { return s.operations }

// Serve serves on the listeners until the context ends, then drains: it becomes unready,
// goes on for the shutdown delay, refuses new calls, lets those in flight finish within the drain timeout, and ends streams with an
// error to retry elsewhere. It closes the listeners. The error is nil after a drain.
func (s *Server) Serve(ctx context.Context, grpcListener, httpListener net.Listener) error {
	*s.ports = ports{portOf(grpcListener.Addr()), portOf(httpListener.Addr())}
	failed := make(chan error, 2)
	var running sync.WaitGroup
	serve := func(name string, serve func() error) {
		running.Go(func() {
			if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				failed <- fmt.Errorf("serve %s: %w", name, err)
			}
		})
	}
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	s.targets.Watch.Check(watching)
	running.Go(func() { s.targets.Watch.Run(watching) })
	running.Go(func() { s.instance.Run(watching) })
	running.Go(func() { s.overrides.Run(watching) })
	serve("gRPC", func() error {
		return s.grpc.Serve(s.handshakes.Listen(s.guard.Unfinished.Listen(s.guard.Connections.Listen(grpcListener))))
	})
	serve("REST", func() error { return s.serveREST(s.guard.Connections.Listen(httpListener)) })
	s.log.Info("serving", zap.Stringer("grpc", grpcListener.Addr()), zap.Stringer("rest", httpListener.Addr()), zap.String("version", s.options.Version))
	var err error
	select {
	case <-ctx.Done():
		s.log.Info("draining")
		// Load balancers learn that it is not ready before it refuses anything.
		s.health.Shutdown()
		select {
		case <-time.After(s.options.ShutdownDelay):
		case err = <-failed:
		}
	case err = <-failed:
	}
	s.stop()
	unwatch()
	running.Wait()
	s.log.Info("stopped")
	return err
}

// Close stops a server that was not served.
func (s *Server) Close() { s.stop() }

// flushTime is how long clients have to read the last responses after the last call.
const flushTime = 500 * time.Millisecond

// stop drains: new calls are refused at once, and clients of gRPC are told to go elsewhere while calls of REST, too, go on.
func (s *Server) stop() {
	s.health.Shutdown()
	s.drain.Begin()
	ctx, cancel := context.WithTimeout(context.Background(), s.options.DrainTimeout)
	defer cancel()
	s.handshakes.end()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("REST calls cut off", zap.Error(err))
		_ = s.http.Close()
	}
	select {
	case <-s.drain.Wait():
	case <-ctx.Done():
		s.log.Warn("gRPC calls cut off")
	}
	flushed, cancelFlush := context.WithTimeout(ctx, flushTime)
	defer cancelFlush()
	select {
	case <-stopped:
	case <-flushed.Done():
	}
	s.cutOff()
	s.grpc.Stop()
	<-stopped
	s.workers.Close()
	s.targets.Finish(ctx)
	s.recorder.Close()
	s.targets.Recordings.Close()
	s.targets.Forecasts.Close()
	if s.hub != nil {
		s.hub.Close()
	}
}

// newHub creates the hub of watched decisions, if the store has a feed of them.
func (s *Server) newHub(fed store.Feed) error {
	if fed == nil || fed.FeedParts() == 0 {
		return nil
	}
	s.hub = feed.New(fed, feed.Options{MaxWatchers: s.options.MaxWatchers, Log: s.log})
	return s.register(s.hub.Collectors()...)
}

// showRoom exports the gate's memory as a metric.
func (s *Server) showRoom(g *gate.Gate) error {
	if s.options.Registerer == nil {
		return nil
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_large_requests_bytes",
		Help: "Estimated memory of large requests in progress, in bytes; further ones wait above 32 MiB per processor, or a twelfth of the memory limit if that is less.",
	}, func() float64 { return float64(g.Held()) })
	if err := s.options.Registerer.Register(held); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// methods are the methods with their own metrics: all that the server serves.
func methods() []telemetry.MethodInfo {
	served := grpc.NewServer()
	defer served.Stop()
	setpointv1.RegisterRecommendationServiceServer(served, setpointv1.UnimplementedRecommendationServiceServer{})
	setpointv1.RegisterTargetServiceServer(served, setpointv1.UnimplementedTargetServiceServer{})
	setpointv1.RegisterSimulationServiceServer(served, setpointv1.UnimplementedSimulationServiceServer{})
	setpointv1.RegisterOverrideServiceServer(served, setpointv1.UnimplementedOverrideServiceServer{})
	setpointv1.RegisterFleetServiceServer(served, setpointv1.UnimplementedFleetServiceServer{})
	setpointv1.RegisterOperationsServiceServer(served, setpointv1.UnimplementedOperationsServiceServer{})
	externalscaler.RegisterExternalScalerServer(served, externalscaler.UnimplementedExternalScalerServer{})
	healthv1.RegisterHealthServer(served, health.New())
	reflection.Register(served)
	all := telemetry.MethodsOf(served.GetServiceInfo())
	for i := range all {
		all[i].Audited = access.Audited(all[i].FullMethod)
	}
	return all
}

// register registers metrics if there is a registerer.
func (s *Server) register(all ...prometheus.Collector) error {
	if s.options.Registerer == nil {
		return nil
	}
	for _, c := range all {
		if err := s.options.Registerer.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
