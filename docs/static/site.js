// For keyboards and screen readers: what scrolls sideways can be focused, the two side bars have names, and the lines of
// a long signature, which Sphinx makes a list of definitions without terms, are no list.
const SCROLLING = "pre, .table-wrapper, .math-wrapper";

function letScroll() {
  for (const each of document.querySelectorAll(SCROLLING)) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
}

addEventListener("DOMContentLoaded", () => {
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "All pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  for (const each of document.querySelectorAll(".sig dl, .sig dd")) each.setAttribute("role", "none");
  letScroll();
});
addEventListener("load", letScroll); // with fonts and pictures
addEventListener("resize", letScroll);
