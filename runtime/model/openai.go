package model

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Config is where and how a provider of OpenAI's chat completions API is reached.
type Config struct {
	// BaseURL has the version segment, such as http://127.0.0.1:8080/v1; empty: OpenAI's own.
	BaseURL string
	// APIKey may be empty: none is sent.
	APIKey string
	// FirstByteTimeout bounds the wait for the headers, and then the wait for the first byte of the answer. 0: 5 minutes,
	// for a local model reads a long prompt slowly.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds every later wait for the server; comments that keep the stream alive end a wait. 0: 2 minutes.
	IdleTimeout time.Duration
	// HTTPClient may be nil: one of its own, which keeps a connection for each concurrent call. Redirects are never
	// followed: they would take the prompt elsewhere, or lose it, and only a wrong BaseURL meets them.
	HTTPClient *http.Client
}

// openAI is the adapter. Of openai-go it takes the client and the decoder of event streams; the JSON on both sides is
// its own (wire.go), which costs a third and forgives what other servers do differently.
type openAI struct {
	client openai.Client
	cfg    Config
	host   string
	keys   bool // it takes cache keys
}

// NewOpenAI makes the adapter for one provider. Of the environment it heeds the proxy alone (HTTPS_PROXY, HTTP_PROXY,
// NO_PROXY), and that not with an HTTPClient of the caller's: keys, organisations and headers of OPENAI_* variables never
// reach a server. The error names the field of Config that is wrong.
func NewOpenAI(cfg Config) (Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, "https://api.openai.com/v1")
	cfg.FirstByteTimeout = cmp.Or(cfg.FirstByteTimeout, 5*time.Minute)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 2*time.Minute)
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errdefs.BadField("base_url", "must be an http or https URL such as http://127.0.0.1:8080/v1")
	}
	if strings.ContainsFunc(cfg.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errdefs.BadField("api_key", "has a space, a line break or a letter beyond ASCII in it")
	}
	if cfg.FirstByteTimeout < 0 || cfg.IdleTimeout < 0 {
		return nil, errdefs.BadField("idle_timeout", "must not be negative")
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: newTransport()}
	}
	direct := *cfg.HTTPClient
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.HTTPClient = &direct
	// Not openai.NewClient: that one takes defaults from the environment, custom headers included.
	client := openai.Client{Options: []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithAPIKey(cfg.APIKey),
		option.WithHTTPClient(cfg.HTTPClient),
		option.WithMaxRetries(0), // the gate retries
		option.WithHeader("Accept", "text/event-stream"),
	}}
	return &openAI{client: client, cfg: cfg, host: u.Host, keys: takesCacheKeys(u.Hostname())}, nil
}

// takesCacheKeys tells whether a provider is known to take `prompt_cache_key`. Strict ones refuse what they do not know, and
// those that cache by the text alone have no use for it.
func takesCacheKeys(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com")
}

// newTransport is the standard one, but for keeping the connections of many concurrent agents to one host.
func newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 15 * time.Second,
	}
}

// Call streams one answer.
func (m *openAI) Call(ctx context.Context, req Request, sink func(Event)) (Response, error) {
	if !m.keys {
		req.CacheKey = ""
	}
	body, err := encode(req)
	if err != nil {
		return Response{}, err
	}
	callCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := startWatchdog(m.cfg.FirstByteTimeout, m.cfg.IdleTimeout, cancel)
	defer w.stop()
	resp, err := m.exchange(callCtx, body, w, sink)
	switch {
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case err != nil:
		return Response{}, m.explain(err, context.Cause(callCtx))
	}
	return resp, nil
}

// exchange sends the request and reads the answer, streamed or, from a server that does not stream, whole.
func (m *openAI) exchange(ctx context.Context, body []byte, w *watchdog, sink func(Event)) (Response, error) {
	var raw *http.Response
	inspect := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(req)
		if err != nil {
			return nil, err
		}
		res.Body = w.watch(res.Body)
		if res.StatusCode/100 == 2 {
			return res, nil
		}
		defer func() { _ = res.Body.Close() }()
		return nil, refusal(res)
	}
	if err := m.client.Post(ctx, "chat/completions", body, &raw, option.WithMiddleware(inspect)); err != nil {
		return Response{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	a := newAnswer(sink)
	err := read(raw, w, a)
	if err != nil && !a.finished() {
		return Response{}, err
	}
	return a.response(len(body))
}

// read feeds the server's answer to a.
func read(raw *http.Response, w *watchdog, a *answer) error {
	media, _, _ := mime.ParseMediaType(raw.Header.Get("Content-Type"))
	switch media {
	case "application/json":
		return readWhole(raw.Body, a)
	case "text/html":
		return &Error{Class: InvalidRequest, Status: raw.StatusCode, Message: "a web page came back; is the base URL right?"}
	}
	return readStream(raw, w, a)
}

// readWhole reads the answer of a server that ignores "stream".
func readWhole(body io.Reader, a *answer) error {
	const most = 32 << 20
	data, err := io.ReadAll(io.LimitReader(body, most))
	if err != nil {
		return brokenOff(err)
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return &Error{Class: Broken, Message: "its answer is not JSON", Cause: err}
	}
	if c.failed() {
		return inStream(data)
	}
	return a.add(c)
}
