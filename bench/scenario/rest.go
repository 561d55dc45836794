package scenario

import (
	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/report"
)

var rest = Scenario{
	Name: "rest", Title: "REST",
	Note: "The same recommendations as JSON over HTTP/1.1 and over gRPC, from two services, beside a bare handler that decodes the same JSON and returns the same answer.",
	play: (*stage).rest,
}

func (s *stage) rest() ([]report.Figure, error) {
	p, err := s.newPair(false, true)
	if err != nil {
		return nil, err
	}
	second, err := s.service(nil)
	if err != nil {
		return nil, err
	}
	c, err := s.dial(second.GRPC)
	if err != nil {
		return nil, err
	}
	set := p.set.Anew()
	if err := s.fill(c, set, s.Rounds); err != nil {
		return nil, err
	}
	pages, plain := client.NewREST(p.service.REST, s.Callers), client.NewREST(p.bare.REST, s.Callers)
	s.onEnd(pages.Close)
	s.onEnd(plain.Close)
	overREST := side{
		name: "REST", recommendations: 1, parts: p.parts("service", p.service.Process), service: p.service,
		drive: closed(s.Callers, pages.Call(p.set)),
	}
	overGRPC := side{
		name: "gRPC", recommendations: 1, parts: p.parts("service", second.Process), service: second,
		drive: closed(s.Callers, c.Unary(set, s.Callers)),
	}
	handler := side{
		name: "bare REST handler", recommendations: 1, parts: p.parts("handler", p.bare.Process),
		drive: closed(s.Callers, plain.Call(p.set.Anew())),
	}
	runs, err := s.compare([]side{overREST, overGRPC, handler}, s.Slice)
	if err != nil {
		return nil, err
	}
	figures := []report.Figure{
		ratio("rate, of gRPC's", runs[0], runs[1], report.AtLeast(50)),
		ratio("rate, of the bare handler's", runs[0], runs[2], nil),
		rates("REST", runs[0], nil), rates("gRPC", runs[1], nil), rates("bare handler", runs[2], nil),
	}
	figures = append(figures, costs("REST", runs[0])...)
	figures = append(figures, garbageFigures("REST", runs[0])...)
	return figures, s.profile(overREST)
}
