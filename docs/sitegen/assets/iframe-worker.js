/* Search without a web server: browsers start no workers from files, so the search
   script runs in a hidden frame instead. Pages from a server use real workers. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write(
        "<script>" +
        "postMessage=function(data){parent.postMessage(data,'*')};" +
        "importScripts=function(){return Array.from(arguments).reduce(function(before,url){" +
        "return before.then(function(){return new Promise(function(done,failed){" +
        "var script=document.createElement('script');script.src=url;script.onload=done;" +
        "script.onerror=failed;document.body.appendChild(script)})})},Promise.resolve())};" +
        "<\/script><body><script src=\"" + url + "\"><\/script></body>"
      );
      inside.document.close();
      this.ready = new Promise((done) => { inside.onload = done; });
      addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });
    }
    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() { this.frame.remove(); }
  };
}
