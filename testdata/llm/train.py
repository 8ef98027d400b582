# Trains tickets.gguf: a small Llama model on generated support tickets, about six minutes on one thread
# (Debian: apt-get install python3-torch). It writes the GGUF file and the evaluation by hand, so that
# nothing else is needed.
import torch, random, math, time, struct, sys, json
import torch.nn as nn, torch.nn.functional as Fn
torch.manual_seed(1); random.seed(1); torch.set_num_threads(1)
E,L,H,F,CTX=96,3,4,256,256
toks=["<unk>","<s>","</s>"]; types=[2,3,3]
for b in range(256): toks.append("<0x%02X>"%b); types.append(6)
for c in range(33,127): toks.append(chr(c)); types.append(1)
toks.append("\u2581"); types.append(1)
toks.append("<|im_start|>"); types.append(3); toks.append("<|im_end|>"); types.append(3)
V=len(toks); IX={t:i for i,t in enumerate(toks)}
def enc(s): return [IX["\u2581"] if c==" " else (3+10 if c=="\n" else IX[c]) for c in s]
S,EN=IX["<|im_start|>"],IX["<|im_end|>"]
cats={"billing":["my card was charged twice","the invoice total is wrong","please refund my payment","why did the price go up","i was billed after cancelling","the receipt shows a wrong charge"],
"bug":["the app crashes on start","saving a file shows an error","the page is blank after login","export fails with a stack trace","the button does nothing","search returns an error"],
"praise":["i love the new design","great work on the update","the team was very helpful","this tool saves me hours","thanks for the fast answer","best product i have used"],
"access":["i cannot log in to my account","reset my password please","my account is locked","the login code never arrives","add a user to my team","remove access for a colleague"]}
pre=["hi, ","hello, ","","dear team, ","hey, ","good morning, ","question: "]; post=[""," today"," since monday","."," again"," thank you","!"," on my phone"," in the office"]
urg=[("low",[""," no rush"," when you can"]),("high",[" this is urgent"," asap"," we are blocked"])]
def sample(rng):
    c=rng.choice(list(cats)); u,us=rng.choice(urg); t=rng.choice(pre)+rng.choice(cats[c])+rng.choice(post)+rng.choice(us)
    return t,c,u
def mk(rng):
    t,c,u=sample(rng); p=[1,S]+enc("user\nclassify: "+t)+[EN]+enc("\n")+[S]+enc("assistant\n"); a=enc('{"label":"%s","urgency":"%s"}'%(c,u))+[EN]
    return p,a
class RMS(nn.Module):
    def __init__(s,d): super().__init__(); s.w=nn.Parameter(torch.ones(d))
    def forward(s,x): return x*torch.rsqrt(x.pow(2).mean(-1,keepdim=True)+1e-5)*s.w
hd=E//H; inv=1.0/(10000**(torch.arange(0,hd,2).float()/hd)); ang=torch.outer(torch.arange(CTX).float(),inv); COS,SIN=ang.cos(),ang.sin()
def rope(x):
    T=x.shape[2]; a,b=x[...,0::2],x[...,1::2]; c,s=COS[:T],SIN[:T]
    return torch.stack((a*c-b*s,a*s+b*c),-1).flatten(-2)
class Blk(nn.Module):
    def __init__(s):
        super().__init__(); s.n1=RMS(E); s.n2=RMS(E); l=lambda i,o: nn.Linear(i,o,bias=False)
        s.q,s.k,s.v,s.o,s.g,s.u,s.d=l(E,E),l(E,E),l(E,E),l(E,E),l(E,F),l(E,F),l(F,E)
    def forward(s,x,m):
        B,T,_=x.shape; h=s.n1(x); f=lambda y:y.view(B,T,H,hd).transpose(1,2)
        q,k,v=rope(f(s.q(h))),rope(f(s.k(h))),f(s.v(h)); a=(q@k.transpose(-2,-1))/math.sqrt(hd)+m
        x=x+s.o((a.softmax(-1)@v).transpose(1,2).reshape(B,T,E)); h=s.n2(x); return x+s.d(Fn.silu(s.g(h))*s.u(h))
class LM(nn.Module):
    def __init__(s): super().__init__(); s.e=nn.Embedding(V,E); s.b=nn.ModuleList(Blk() for _ in range(L)); s.n=RMS(E); s.out=nn.Linear(E,V,bias=False); nn.init.normal_(s.e.weight,std=0.02)
    def forward(s,x):
        m=torch.full((x.shape[1],x.shape[1]),-1e9).triu(1); h=s.e(x)
        for b in s.b: h=b(h,m)
        return s.out(s.n(h))
net=LM(); print("params",sum(p.numel() for p in net.parameters()),flush=True)
opt=torch.optim.AdamW(net.parameters(),lr=2e-3,betas=(0.9,0.98),weight_decay=0.01); t0=time.time(); BUD=float(sys.argv[2]); step=0
while time.time()-t0<BUD:
    fr=(time.time()-t0)/BUD
    for g in opt.param_groups: g["lr"]=2e-3*min(1,(step+1)/50)*(0.5+0.5*math.cos(math.pi*fr))
    bs=[mk(random) for _ in range(16)]; T=max(len(p)+len(a) for p,a in bs); X=torch.zeros(16,T,dtype=torch.long); Wt=torch.zeros(16,T)
    for i,(p,a) in enumerate(bs): s=p+a; X[i,:len(s)]=torch.tensor(s); Wt[i,:len(p)]=0.05; Wt[i,len(p):len(s)]=1
    lo=net(X[:,:-1]); ls=Fn.cross_entropy(lo.reshape(-1,V),X[:,1:].reshape(-1),reduction="none").view(16,-1); w=Wt[:,1:]; loss=(ls*w).sum()/w.sum()
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(net.parameters(),1.0); opt.step(); step+=1
    if step%50==0: print(step,round(time.time()-t0),"loss %.4f"%loss.item(),flush=True)
    if step%50==0 and loss.item()<0.06 and fr>0.3 and False: break
print("steps",step,flush=True)
U32,F32,STR,ARR,BOOL,I32=4,6,8,9,7,5
def s(x): b=x.encode(); return struct.pack("<Q",len(b))+b
kv=[]
def kstr(k,v): kv.append(s(k)+struct.pack("<I",STR)+s(v))
def ku32(k,v): kv.append(s(k)+struct.pack("<II",U32,v))
def kf32(k,v): kv.append(s(k)+struct.pack("<If",F32,v))
def kbool(k,v): kv.append(s(k)+struct.pack("<IB",BOOL,v))
kstr("general.architecture","llama"); kstr("general.name","engine-tiny-tickets")
for k,v in [("context_length",CTX),("embedding_length",E),("block_count",L),("feed_forward_length",F),("attention.head_count",H),("attention.head_count_kv",H),("rope.dimension_count",hd),("vocab_size",V)]: ku32("llama."+k,v)
kf32("llama.attention.layer_norm_rms_epsilon",1e-5); kf32("llama.rope.freq_base",10000.0)
kstr("tokenizer.ggml.model","llama")
kv.append(s("tokenizer.ggml.tokens")+struct.pack("<IIQ",ARR,STR,V)+b"".join(s(t) for t in toks))
kv.append(s("tokenizer.ggml.scores")+struct.pack("<IIQ",ARR,F32,V)+b"".join(struct.pack("<f",-float(i)) for i in range(V)))
kv.append(s("tokenizer.ggml.token_type")+struct.pack("<IIQ",ARR,I32,V)+b"".join(struct.pack("<i",x) for x in types))
ku32("tokenizer.ggml.bos_token_id",1); ku32("tokenizer.ggml.eos_token_id",EN); ku32("tokenizer.ggml.eot_token_id",EN); ku32("tokenizer.ggml.unknown_token_id",0)
kbool("tokenizer.ggml.add_bos_token",1); kbool("tokenizer.ggml.add_space_prefix",0)
kstr("tokenizer.chat_template","{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
Ts=[("token_embd.weight",net.e.weight)]
for i,b in enumerate(net.b):
    p="blk.%d."%i
    Ts+=[(p+"attn_norm.weight",b.n1.w),(p+"ffn_norm.weight",b.n2.w),(p+"attn_q.weight",b.q.weight),(p+"attn_k.weight",b.k.weight),(p+"attn_v.weight",b.v.weight),(p+"attn_output.weight",b.o.weight),(p+"ffn_gate.weight",b.g.weight),(p+"ffn_up.weight",b.u.weight),(p+"ffn_down.weight",b.d.weight)]
Ts+=[("output_norm.weight",net.n.w),("output.weight",net.out.weight)]
A=32; off=0; info=b""; data=b""
for n,w in Ts:
    d=list(w.shape)[::-1]; b=struct.pack("<%df"%w.numel(),*w.detach().reshape(-1).tolist()); pad=(-len(b))%A
    info+=s(n)+struct.pack("<I",len(d))+b"".join(struct.pack("<Q",x) for x in d)+struct.pack("<IQ",0,off); data+=b+b"\0"*pad; off+=len(b)+pad
head=b"GGUF"+struct.pack("<IQQ",3,len(Ts),len(kv))+b"".join(kv)+info; head+=b"\0"*((-len(head))%A)
open(sys.argv[1],"wb").write(head+data); print("gguf bytes",len(head)+len(data),flush=True)
rng=random.Random(99); json.dump([sample(rng) for _ in range(60)],open("eval.json","w"))
