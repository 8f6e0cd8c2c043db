package model_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
)

// A provider is not believed blindly: what it says goes into budgets.
func TestUsageIsBoundedOrEstimated(t *testing.T) {
	const most = 1 << 40
	for said, want := range map[string]model.Usage{
		`{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}`: {InputTokens: 3, OutputTokens: 2, CachedTokens: 1},
		`{"prompt_tokens":7.0,"completion_tokens":2.9}`:                                         {InputTokens: 7, OutputTokens: 2},
		`{"prompt_tokens":9223372036854775807,"completion_tokens":1e300}`:                       {InputTokens: most, OutputTokens: most},
		`{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":-9},` +
			`"completion_tokens_details":{"reasoning_tokens":1e19}}`: {InputTokens: 5, OutputTokens: 1, ReasoningTokens: most},
		`{"prompt_tokens":5,"completion_tokens":-1000000}`:                       {InputTokens: 5, OutputTokens: 3},
		`{"prompt_tokens":5,"completion_tokens":"many"}`:                         {InputTokens: 5, OutputTokens: 3},
		`{"prompt_tokens":5,"completion_tokens":1e999}`:                          {InputTokens: 5, OutputTokens: 3},
		`{"prompt_tokens_details":"none","prompt_tokens":5}`:                     {InputTokens: 5, OutputTokens: 3},
		`{"prompt_tokens":-1000000,"completion_tokens":1,"cost":{"currency":1}}`: {InputTokens: 999, OutputTokens: 1},
		`"none"`: {InputTokens: 999, OutputTokens: 3},
		`null`:   {InputTokens: 999, OutputTokens: 3},
	} {
		var bytes int64
		m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			bytes = r.ContentLength
			says(200, "text/event-stream", events(`{"choices":[{"delta":{"content":"ten bytes!"}}],"usage":`+said+`}`, stopped)).ServeHTTP(w, r)
		}), model.Config{})
		got, err := m.Call(t.Context(), hello(), nowhere)
		if want.InputTokens == 999 {
			want.InputTokens = (bytes + 3) / 4
		}
		if err != nil || got.Usage != want {
			t.Errorf("%s: got %+v, %v; want %+v", said, got.Usage, err, want)
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	calls := 0
	for _, status := range []int{http.StatusFound, http.StatusPermanentRedirect} {
		m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			http.Redirect(w, r, "https://elsewhere.test/v1?key=hidden", status)
		}), model.Config{APIKey: secret})
		_, err := m.Call(t.Context(), hello(), nowhere)
		if classOf(t, err) != model.InvalidRequest {
			t.Errorf("%d: got %v", status, err)
		}
		has := "redirects to https://elsewhere.test/v1; is the base URL right?"
		if !strings.HasSuffix(err.Error(), has) {
			t.Errorf("%d: got %v", status, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}
