"use strict";
(function () {
  function reveal() {
    var id = decodeURIComponent(location.hash.slice(1));
    var target = id && document.getElementById(id);
    if (!target) return;
    for (var at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    var focus = target.tagName === "DETAILS" ? target.querySelector("summary") : target;
    if (focus !== target || target.tabIndex >= 0) focus.focus({ preventScroll: true });
    target.scrollIntoView();
  }
  function all(open) {
    document.querySelectorAll("details").forEach(function (one) { one.open = open; });
  }
  addEventListener("hashchange", reveal);
  addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("[data-fold]").forEach(function (button) {
      button.hidden = false;
      button.addEventListener("click", function () { all(button.dataset.fold === "open"); });
    });
    reveal();
  });
  addEventListener("beforeprint", function () { all(true); });
})();
