package script

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const mostOfBody = 64 << 20 // bytes of a request

// Server answers POST /v1/chat/completions, streamed or not, and GET /v1/models, by a script, to callers on this
// machine. It is an http.Handler.
type Server struct {
	script *Script
	mux    *http.ServeMux

	mu         sync.Mutex
	requests   int
	rejections []string
	used       []int         // by rule, how often it answered, for times
	faults     map[shown]int // how often, for fault_times
}

// shown is a fault as one history has seen it.
type shown struct {
	rule    *rule
	history string
}

// NewServer makes a server of its own state for the script: counts begin at zero.
func NewServer(s *Script) *Server {
	srv := &Server{script: s, mux: http.NewServeMux(), used: make([]int, len(s.rules)), faults: make(map[shown]int)}
	srv.mux.HandleFunc("POST /v1/chat/completions", srv.complete)
	srv.mux.HandleFunc("GET /v1/models", srv.models)
	return srv
}

// ServeHTTP refuses callers from other machines.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && !net.ParseIP(host).IsLoopback() {
		refuse(w, http.StatusForbidden, "forbidden", "", "only callers on this machine are answered")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Requests counts the completions asked for so far, refused ones included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Rejections are the reasons of the requests that Validate refused, oldest first; the first 1,000.
func (s *Server) Rejections() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.rejections...)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type entry struct {
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}{"list", []entry{{"scripted", "model"}}})
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	s.count()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostOfBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "invalid_request_error", "", "the body cannot be read: "+err.Error())
		return
	}
	req, err := decode(body)
	if err != nil {
		s.reject(err)
		refuse(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	scene := sceneOf(req.Messages)
	rule := s.choose(&scene)
	if rule == nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "no_rule",
			fmt.Sprintf("no rule of the script matches step %d, last message %q", scene.Step, shortened(scene.Last)))
		return
	}
	key := historyKey(body)
	reply, err := rule.reply(req, scene, key, len(body))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "template", fmt.Sprintf("line %d of the script: %v", rule.line, err))
		return
	}
	reply.faulty = s.faulty(rule, key)
	if !pause(r, rule.delay) {
		return
	}
	reply.send(w, r)
}

func (s *Server) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
}

func (s *Server) reject(err error) {
	const most = 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rejections) < most {
		s.rejections = append(s.rejections, err.Error())
	}
}

// choose finds the first rule that matches and puts into the scene what its patterns caught.
func (s *Server) choose(scene *Scene) *rule {
	for i := range s.script.rules {
		r := &s.script.rules[i]
		if r.matches(scene) && s.take(i, r.times) {
			return r
		}
	}
	return s.script.fallback
}

// take uses rule i once, unless it was used up.
func (s *Server) take(i, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times > 0 && s.used[i] >= times {
		return false
	}
	s.used[i]++
	return true
}

// faulty tells whether this time the rule goes wrong.
func (s *Server) faulty(r *rule, key string) bool {
	if r.status == 0 && r.fault == noFault {
		return false
	}
	if r.faultTimes == 0 {
		return true
	}
	f := shown{r, key}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults[f] >= r.faultTimes {
		return false
	}
	s.faults[f]++
	return true
}

// historyKey names a request by its content, so that the same request gets the same answer and the same call ids.
func historyKey(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:6])
}

// sceneOf reads what rules look at.
func sceneOf(messages []message) Scene {
	s := Scene{Step: 1, Agent: messages[0].text(), Last: messages[len(messages)-1].text()}
	for _, m := range messages {
		switch m.Role {
		case "assistant":
			s.Step++
		case "user":
			s.User = m.text()
			s.users = append(s.users, s.User)
		}
	}
	return s
}

// matches tells whether the rule is for this scene.
func (r *rule) matches(s *Scene) bool {
	if r.step != 0 && r.step != s.Step {
		return false
	}
	s.AgentMatch, s.Match, s.UserMatch = nil, nil, nil
	if r.agent != nil {
		if s.AgentMatch = r.agent.FindStringSubmatch(s.Agent); s.AgentMatch == nil {
			return false
		}
	}
	if r.last != nil {
		if s.Match = r.last.FindStringSubmatch(s.Last); s.Match == nil {
			return false
		}
	}
	if r.each != nil && !r.each.MatchString(s.Last) {
		return false
	}
	if r.user == nil {
		return true
	}
	for _, text := range s.users {
		if s.UserMatch = r.user.FindStringSubmatch(text); s.UserMatch != nil {
			return true
		}
	}
	return false
}

// pause waits, and tells whether the client is still there.
func pause(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// refuse answers with an error in the form of the real API.
func refuse(w http.ResponseWriter, status int, kind, code, message string) {
	writeJSON(w, status, wireError{wireErrorBody{Message: message, Type: kind, Code: code}})
}

type wireError struct {
	Error wireErrorBody `json:"error"`
}

type wireErrorBody struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
}

func writeJSON[T any](w http.ResponseWriter, status int, body T) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// shortened is the beginning of a long text.
func shortened(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
