//go:build linux

package languages

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// goClient is the library for Go, which the others are held to.
type goClient struct {
	client *setpoint.Client
	// next and stop are of the watch that is open, if one is.
	next func() (*setpointv1.WatchDecisionsResponse, error, bool)
	stop func()
}

func startGo(t *testing.T) client {
	g := &goClient{}
	t.Cleanup(func() {
		if g.stop != nil {
			g.stop()
		}
		if g.client != nil {
			_ = g.client.Close()
		}
	})
	return g
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (g *goClient) open(c config) error {
	r := setpoint.Retry{
		MaxAttempts: c.Retry.MaxAttempts, BaseDelay: seconds(c.Retry.BaseDelay), MaxDelay: seconds(c.Retry.MaxDelay),
		AttemptTimeout: seconds(c.Retry.AttemptTimeout), BudgetReserve: c.Retry.BudgetReserve,
	}
	if c.Retry.BudgetRatio != nil {
		r.BudgetRatio = *c.Retry.BudgetRatio
	}
	options := []setpoint.Option{setpoint.WithRetry(r)}
	if c.Insecure {
		options = append(options, setpoint.WithInsecure())
	}
	if files := (setpoint.TLS{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName}); files != (setpoint.TLS{}) {
		options = append(options, setpoint.WithTLS(files))
	}
	if c.Token != "" {
		options = append(options, setpoint.WithToken(c.Token))
	}
	if c.TokenFile != "" {
		options = append(options, setpoint.WithTokenFile(c.TokenFile))
	}
	if c.TokenOverInsecure {
		options = append(options, setpoint.WithTokenOverInsecure())
	}
	if c.Timeout != 0 {
		options = append(options, setpoint.WithTimeout(seconds(c.Timeout)))
	}
	if c.MaxBatch != 0 {
		options = append(options, setpoint.WithMaxBatch(c.MaxBatch))
	}
	if g.client != nil {
		_ = g.client.Close()
		g.client = nil
	}
	var err error
	g.client, err = setpoint.New(c.Target, options...)
	return err
}

func failed(err error) said {
	s := status.Convert(err)
	f := &failure{Code: code.Code_name[int32(s.Code())], Message: s.Message(), Reason: setpoint.Reason(err)}
	for _, v := range setpoint.Violations(err) {
		f.Violations = append(f.Violations, v.Field)
	}
	if delay, ok := setpoint.RetryDelay(err); ok {
		f.RetryDelay = new(delay.Seconds())
	}
	return said{Error: f}
}

func answered(message proto.Message, err error) said {
	if err != nil {
		return failed(err)
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		panic(err)
	}
	return said{Answer: text}
}

func checked(err error) said {
	var wrong *setpoint.AnswerError
	if errors.As(err, &wrong) {
		return said{Field: &wrong.Field, AnotherCaller: wrong.AnotherCaller}
	}
	return said{}
}

// do reads a command as the other clients do, from JSON.
func (g *goClient) do(t *testing.T, given map[string]any) said {
	t.Helper()
	ctx := context.Background()
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	var command struct {
		Op, Name, Parent                                    string
		Config                                              config
		Request, Answer, Previous, Report, Response, Status json.RawMessage
		Requests                                            []json.RawMessage
		Now                                                 float64
		Unrecorded                                          bool
		Count                                               int
	}
	if err := json.Unmarshal(text, &command); err != nil {
		t.Fatal(err)
	}
	read := func(text json.RawMessage, m proto.Message) {
		t.Helper()
		if err := protojson.Unmarshal(text, m); err != nil {
			t.Fatal(err)
		}
	}
	switch command.Op {
	case "open":
		if err := g.open(command.Config); err != nil {
			return said{Error: &failure{Code: "CONFIG", Message: err.Error()}}
		}
		return said{}
	case "recommend":
		var request setpointv1.RecommendRequest
		read(command.Request, &request)
		return answered(g.client.Recommend(ctx, &request))
	case "batch":
		var requests []*setpointv1.RecommendRequest
		for _, text := range command.Requests {
			request := new(setpointv1.RecommendRequest)
			read(text, request)
			requests = append(requests, request)
		}
		var all said
		for _, result := range g.client.BatchRecommend(ctx, requests) {
			all.Results = append(all.Results, answered(result.Response, result.Err))
		}
		return all
	case "report":
		var request setpointv1.ReportScaleRequest
		read(command.Request, &request)
		return answered(g.client.ReportScale(ctx, &request))
	case "get":
		return answered(g.client.GetTarget(ctx, command.Name))
	case "list":
		var all said
		for target, err := range g.client.ListTargets(ctx, command.Parent) {
			if err != nil {
				return failed(err)
			}
			all.Names = append(all.Names, target.GetName())
		}
		return all
	case "decisions":
		response, err := setpointv1.NewTargetServiceClient(g.client.Conn()).ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: command.Name})
		if err != nil {
			return failed(err)
		}
		var all said
		for _, decision := range response.GetDecisions() {
			all.Names = append(all.Names, decision.GetRecommendationId())
		}
		return all
	case "watch":
		request := &setpointv1.WatchDecisionsRequest{}
		read(command.Request, request)
		g.next, g.stop = iter.Pull2(g.client.WatchDecisions(ctx, request, nil))
		response, err, _ := g.next()
		return answered(response, err)
	case "next":
		var all said
		for decisions := 0; decisions < command.Count; {
			response, err, _ := g.next()
			if err != nil {
				return failed(err)
			}
			if response.GetDecision() != nil {
				decisions++
			}
			all.Results = append(all.Results, answered(response, nil))
		}
		return all
	case "unwatch":
		g.stop()
		g.stop = nil
		return said{}
	case "delete":
		if err := g.client.DeleteTarget(ctx, command.Name); err != nil {
			return failed(err)
		}
		return said{}
	case "setSpec":
		spec := &setpointv1.TargetSpec{}
		read(command.Request, spec)
		response, err := setpointv1.NewTargetServiceClient(g.client.Conn()).SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: command.Name, TargetSpec: spec})
		return answered(response.GetTargetSpec(), err)
	case "getSpec":
		response, err := setpointv1.NewTargetServiceClient(g.client.Conn()).GetTargetSpec(ctx, &setpointv1.GetTargetSpecRequest{Name: command.Name})
		return answered(response.GetTargetSpec(), err)
	case "check", "checkReport":
		var request setpointv1.RecommendRequest
		var answer setpointv1.RecommendResponse
		read(command.Request, &request)
		read(command.Answer, &answer)
		asked := setpoint.Asked{Request: &request, Unrecorded: command.Unrecorded, Now: time.UnixMilli(int64(command.Now * 1000))}
		if command.Op == "checkReport" {
			var report setpointv1.ReportScaleRequest
			var response setpointv1.ReportScaleResponse
			read(command.Report, &report)
			read(command.Response, &response)
			return checked(setpoint.CheckReport(asked, &answer, &report, &response))
		}
		if command.Previous != nil {
			asked.Previous = &setpointv1.RecommendResponse{}
			read(command.Previous, asked.Previous)
		}
		return checked(setpoint.CheckAnswer(asked, &answer))
	case "seed":
		var status setpointv1.HorizontalPodAutoscalerStatus
		read(command.Status, &status)
		return answered(setpoint.Seed(&status), nil)
	}
	t.Fatalf("no such command: %s", command.Op)
	return said{}
}
