package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, path := range []string{"/v1/clusters/%ff/namespaces/a/targets/web", "/v1/clusters/a/namespaces/b/targets?pageToken=%ff", "/v1/clusters/a/namespaces/b/targets?%c0%80=1"} {
		s.Ask(t, http.MethodGet, path, nil).Expect(t, http.StatusBadRequest)
	}
	for _, method := range []string{setpointv1.RecommendationService_Recommend_FullMethodName, setpointv1.TargetService_GetTarget_FullMethodName} {
		// Field 1, two bytes that are no text.
		_, err := s.SendRaw(t.Context(), method, []byte("\x0a\x02\xff\xfe"))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// What the gateway itself finds wrong has the reason of what the service finds.
func TestErrorsOfTheGatewayHaveAReason(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := s.Request(t, http.MethodGet, "/v1/instances", nil)
	req.Header.Set(servertest.OverGateway, "soon")
	a := s.MustSend(t, req)
	if servertest.WantProblem(t, a.Problem(t), codes.InvalidArgument, "INVALID_REQUEST"); !strings.Contains(string(a.Raw), "invalid grpc-timeout: soon") {
		t.Errorf("it says %s", a.Raw)
	}
}

// A condition in a body that nobody reads would be lost.
func TestBodiesOfCallsThatHaveNone(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for _, tc := range []struct {
		method, path, body, want string
		code                     int
	}{
		{http.MethodDelete, "/spec", `{"etag": "1-1"}`, "body: not supported: parameters go into the URL, and there are etag", 400},
		{http.MethodDelete, "", `{"targetUid": "u"}`, "body: not supported: parameters go into the URL, and there are targetUid, target_uid, clusterUid, cluster_uid", 400},
		{http.MethodGet, "", "pageSize=1", "body: not supported: parameters go into the URL, and this call takes none", 400},
		{http.MethodGet, "", strings.Repeat(" ", 65<<20) + "{}", "body: not supported: parameters go into the URL, and this call takes none", 400},
		{http.MethodDelete, "/spec", " {}\n", "", 404},
	} {
		req := s.Request(t, tc.method, "/v1/"+servertest.Web+tc.path, tc.body)
		a := s.MustSend(t, req)
		if message, _ := a.Expect(t, tc.code)["message"].(string); !strings.HasSuffix(message, tc.want) {
			t.Errorf("%s %s %.20s: %s", tc.method, tc.path, tc.body, a.Raw)
		}
	}
}

func TestParametersOfURLsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const shop = "/v1/clusters/c/namespaces/shop/"
	for _, tc := range []struct{ method, path, want string }{
		{http.MethodDelete, shop + "targets/web/spec?etag=", "etag: Required value: without a condition leave the parameter out"},
		{http.MethodGet, shop + "targets?pageToken=", ""},
		{http.MethodGet, shop + "targets?pagesiz=3", `pagesiz: unknown parameter, did you mean "pageSize"?`},
		{http.MethodGet, shop + "targets?limit=3", "limit: unknown parameter: there are pageSize, page_size, pageToken, page_token, withSpecInUse, with_spec_in_use"},
		{http.MethodGet, shop + "targets/web?x.y=3", "x.y: unknown parameter: this call takes none"},
		{http.MethodPost, shop + "targets/web:recommend?explain=true", "explain: unknown parameter: this call takes none"},
		{http.MethodGet, shop + "targets?pageSize=many", `pageSize: Invalid value: "many": must be a whole number`},
		{http.MethodGet, shop + "targets?pageSize=99999999999", `pageSize: Invalid value: "99999999999": must be a whole number of 32 bits`},
		{http.MethodGet, shop + "targets/web/recording?startTime=yesterday", `startTime: Invalid value: "yesterday": must be a time such as "2030-01-31T12:00:00Z"`},
		{http.MethodGet, shop + "targets?pageSize=1&pageSize=2", "pageSize: given more than once"},
		{http.MethodGet, shop + "targets?pageSize=1&page_size=3", "pageSize: given more than once"},
		{http.MethodGet, shop + "targets?pageSize=1;pageSize=2", "query: Invalid value: invalid semicolon separator in query"},
		{http.MethodPost, shop + "targets/web:recommend?dryRun=%zz", `query: Invalid value: invalid URL escape "%zz"`},
		{http.MethodGet, shop + "targets?page_size=1", ""},
	} {
		var body any
		if tc.method == http.MethodPost {
			body = map[string]any{}
		}
		code := http.StatusOK
		if tc.want != "" {
			code = http.StatusBadRequest
		}
		a := s.Ask(t, tc.method, tc.path, body)
		message, _ := a.Expect(t, code)["message"].(string)
		if tc.want != "" && (!strings.HasSuffix(message, tc.want) || a.Problem(t).Reason != "INVALID_REQUEST") {
			t.Errorf("%s %s: %s, want %s", tc.method, tc.path, a.Raw, tc.want)
		}
	}
}
